"""The campaign: runs a plan of measurements layer by layer and ends in a PASS/FAIL sheet (docs/campaign.md)."""
