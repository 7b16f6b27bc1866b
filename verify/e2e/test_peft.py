"""What is written for PEFT and transformers gives there the logits that it gives here."""
import unittest

import tt

FIXTURES = tt.ROOT / "verify" / "fixtures"


class WrittenFiles(tt.TestCase):
    def setUp(self):
        tt.require_exe("unit")
        try:
            import peft  # noqa: F401
            import safetensors.torch  # noqa: F401
            import torch  # noqa: F401
            import transformers  # noqa: F401
        except ImportError as error:
            raise unittest.SkipTest(f"needs the Python packages torch, transformers and peft: {error}")

    def distance(self, model, fixture, logits):
        """Of the model's logits for a fixture's first micro-batch from those in the file, relative, norm-wise."""
        import torch
        from safetensors.torch import load_file
        tokens = load_file(FIXTURES / fixture / "expected.safetensors")["tokens"][0][:, :-1].long()
        with torch.no_grad():
            theirs = model.eval()(tokens).logits.float()
        ours = load_file(self.tmp / f"{logits}.safetensors")["logits"].reshape(theirs.shape)
        return float((theirs - ours).norm() / theirs.norm())

    def load(self, folder, **kwargs):
        from transformers import AutoModelForCausalLM
        return AutoModelForCausalLM.from_pretrained(str(folder), attn_implementation="eager", **kwargs)

    def test_the_same_logits(self):
        import torch
        from peft import PeftModel
        r = tt.run("unit", "[.peft_files]", env={"TT_WRITE_FILES": self.tmp}, cwd=tt.ROOT, timeout=120)
        self.assert_rc(r, 0)
        for name, fixture in (("plain", "llama3-tiny-lora"), ("scaled", "llama31-tiny-ropescaled-lora"),
                              ("mixed", "llama3-tiny-lora")):
            with self.subTest(adapter=name):
                base = self.load(FIXTURES / fixture / "model")
                apart = self.distance(base, fixture, name)
                self.assertGreater(apart, 1e-3)  # the adapter matters
                model = PeftModel.from_pretrained(base, str(self.tmp / name))
                self.assertLess(self.distance(model, fixture, name), 1e-5)
        with self.subTest(model="full"):
            model = self.load(self.tmp / "full")
            self.assertEqual(model.dtype, torch.float32)
            self.assertLess(self.distance(model, "llama3-tiny-full", "full"), 1e-5)
        with self.subTest(model="shards"):  # weights rounded to bf16: 2^-9 relative each at most
            model = self.load(self.tmp / "shards", dtype=torch.float32)
            self.assertLess(self.distance(model, "llama3-tiny-full", "full"), 5e-3)


if __name__ == "__main__":
    unittest.main()
