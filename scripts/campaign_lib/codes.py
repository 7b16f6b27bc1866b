"""Exit codes of the contract and how they outweigh each other; the same as common/exit_code.h."""

PASS, GATE, USAGE, ENVIRONMENT, WRONG_DATA, TIMEOUT, SKIPPED = 0, 1, 2, 3, 4, 5, 77

# From harmless to worst. Wrong data outweighs everything: it is the one fault that no retry excuses.
SEVERITY = (PASS, SKIPPED, GATE, USAGE, ENVIRONMENT, TIMEOUT, WRONG_DATA)

WORDS = {PASS: "PASS", GATE: "FAIL", USAGE: "USAGE", ENVIRONMENT: "ERROR", WRONG_DATA: "WRONG DATA",
         TIMEOUT: "TIMEOUT", SKIPPED: "SKIPPED"}

# Rows of the sheet that stand for no run at all; they carry no exit code of their own.
NOT_RUN, PENDING = "NOT RUN", "PENDING"


def worst(codes):
    """The code that outweighs the others; PASS for none."""
    return max(codes, key=SEVERITY.index, default=PASS)


def from_exit_status(status):
    """A process's exit status (negative: ended by that signal) as a code of the contract. Anything that the contract
    does not know is an error of the run, never a pass."""
    return status if status in SEVERITY else ENVIRONMENT


class CampaignError(Exception):
    """Ends the campaign before or between steps with this code; the message is the one line that is printed."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code
