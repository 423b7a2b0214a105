"""`patch` on models of `transformers` and `diffusers`, small and with random weights."""

import copy
import os
import pickle
import subprocess
import sys
import warnings

os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import torch
from torch import nn

from fastgrad.torch.patching import patch, unpatch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what importing them warns of is not ours
    import diffusers
    import transformers
    from diffusers.models.activations import GELU as DiffusersGELU
    from diffusers.models.activations import ApproximateGELU, SwiGLU
    from diffusers.models.attention import FeedForward
    from diffusers.models.normalization import RMSNorm as DiffusersRMSNorm
    from diffusers.models.resnet import ResnetBlock2D
    from transformers.activations import ACT2FN
    from transformers.models.gemma.modeling_gemma import GemmaRMSNorm

# Their own deprecations, at a call.
pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning:transformers"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:diffusers"),
]

SMALL = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
IDS = torch.arange(14).reshape(2, 7) * 5 % 96
BLOCKS = {
    "sample_size": 8,
    "block_out_channels": (16, 32),
    "layers_per_block": 1,
    "norm_num_groups": 4,
}


def llama():
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL))


def mistral():
    return transformers.MistralForCausalLM(transformers.MistralConfig(**SMALL))


def qwen2():
    return transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**SMALL))


def phi3():
    return transformers.Phi3ForCausalLM(transformers.Phi3Config(**SMALL))


def gemma():
    return transformers.GemmaForCausalLM(transformers.GemmaConfig(**SMALL, head_dim=16))


def bert():
    own = {key: value for key, value in SMALL.items() if key != "num_key_value_heads"}
    return transformers.BertForMaskedLM(transformers.BertConfig(**own)).eval()


def gpt2():
    config = transformers.GPT2Config(
        vocab_size=96, n_embd=64, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=2
    )
    return transformers.GPT2LMHeadModel(config).eval()


def t5():
    config = transformers.T5Config(
        vocab_size=96,
        d_model=64,
        d_kv=16,
        d_ff=96,
        num_layers=1,
        num_heads=4,
        feed_forward_proj="gated-gelu",
    )
    return transformers.T5EncoderModel(config).eval()


def unet():
    return diffusers.UNet2DModel(
        in_channels=3,
        out_channels=3,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        **BLOCKS,
    )


def unet_scale_shift():
    return diffusers.UNet2DModel(
        in_channels=3,
        out_channels=3,
        down_block_types=("DownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "UpBlock2D"),
        resnet_time_scale_shift="scale_shift",
        **BLOCKS,
    )


def unet_condition():
    return diffusers.UNet2DConditionModel(
        in_channels=3,
        out_channels=3,
        cross_attention_dim=16,
        attention_head_dim=4,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        **BLOCKS,
    )


def value(model):
    """The first result for some input."""
    if isinstance(model, diffusers.UNet2DModel):
        return model(torch.linspace(-1, 1, 384).reshape(2, 3, 8, 8), torch.tensor([1, 2])).sample
    if isinstance(model, diffusers.UNet2DConditionModel):
        text = torch.linspace(-1, 1, 160).reshape(2, 5, 16)
        x = torch.linspace(-1, 1, 384).reshape(2, 3, 8, 8)
        return model(x, torch.tensor([1, 2]), text).sample
    return model(input_ids=IDS)[0]


def step(model):
    model.zero_grad()
    torch.manual_seed(0)
    out = value(model)
    out.square().mean().backward()
    return [out.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]


def assert_close(found, wanted):
    assert len(found) == len(wanted)
    # A bias that softmax cancels has a gradient of rounding alone: what counts is the largest of all.
    scale = max(own.abs().max() for own in wanted[1:])
    torch.testing.assert_close(found[0], wanted[0], rtol=1e-4, atol=1e-5)
    for one, other in zip(found[1:], wanted[1:]):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5 * scale.item())


#: A model, the operators that run in forward, and what the report lists: a class and what it is now.
MODELS = [
    (llama, {"rms_norm": 3, "add_rms_norm": 2, "swiglu": 2}, "LlamaDecoderLayer"),
    (mistral, {"rms_norm": 3, "add_rms_norm": 2, "swiglu": 2}, "MistralDecoderLayer"),
    (qwen2, {"rms_norm": 3, "add_rms_norm": 2, "swiglu": 2}, "Qwen2DecoderLayer"),
    (phi3, {"rms_norm": 3, "add_rms_norm": 2, "swiglu": 2}, "Phi3MLP"),
    (gemma, {"geglu": 2}, "GemmaMLP"),
    (bert, {"add_layer_norm": 4, "add_gelu": 3, "layer_norm": 2}, "BertIntermediate"),
    (gpt2, {"layer_norm": 3, "add_layer_norm": 2, "gelu": 2}, "GPT2Block"),
    (t5, {"rms_norm": 3, "gelu": 1}, "T5LayerNorm"),
    (unet, {"group_norm_swish": 17, "group_norm": 4, "silu": 9}, "ResnetBlock2D"),
    (unet_scale_shift, {}, "UNet2DModel"),
    (unet_condition, {"group_norm_swish": 17, "geglu": 4}, "ResnetBlock2D"),
]


@pytest.fixture
def launched(monkeypatch):
    from fastgrad.torch._adapter import Adapter

    names, call = [], Adapter.__call__
    monkeypatch.setattr(
        Adapter, "__call__", lambda self, *a: names.append(self.name) or call(self, *a)
    )
    return names


@pytest.mark.parametrize(
    ("make", "operators", "listed"), MODELS, ids=[m[0].__name__ for m in MODELS]
)
class TestModels:
    def test_same_values_and_gradients(self, make, operators, listed, launched):
        torch.manual_seed(0)
        model = make()
        stock, keys = copy.deepcopy(model), list(model.state_dict())
        report = patch(model)
        assert_close(step(model), step(stock))
        for name, count in operators.items():
            assert launched.count(name) == count, (name, launched)
        assert any(own.was.endswith("." + listed) for own in report.replaced)
        assert list(model.state_dict()) == keys
        stock.load_state_dict(model.state_dict())
        model.load_state_dict(stock.state_dict())
        unpatch(model)
        assert [type(m) for m in model.modules()] == [type(m) for m in stock.modules()]
        assert all(torch.equal(a, b) for a, b in zip(step(model), step(stock), strict=True))

    def test_copies(self, make, operators, listed):
        torch.manual_seed(0)
        model = make()
        patch(model)
        with torch.no_grad():
            wanted = value(model)
            for own in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
                assert [type(m) for m in own.modules()] == [type(m) for m in model.modules()]
                assert torch.equal(value(own), wanted)


class TestTransformers:
    def test_gemma_is_left(self):
        norm = nn.Sequential(GemmaRMSNorm(8))
        report = patch(norm)
        assert report.replaced == []
        assert report.left[0].reason == "its forward is not one that fastgrad knows"

    @pytest.mark.parametrize(
        "name",
        ["gelu", "gelu_new", "gelu_python", "gelu_pytorch_tanh", "gelu_python_tanh", "mish",
         "quick_gelu", "relu2", "silu", "swish", "relu", "sigmoid"],
    )  # fmt: skip
    def test_activations(self, name):
        model = nn.Sequential(ACT2FN[name])
        stock = copy.deepcopy(model)
        x = torch.linspace(-6, 6, 99).requires_grad_()
        y = x.detach().clone().requires_grad_()
        assert len(patch(model).replaced) == 1
        found, wanted = model(x), stock(y)
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)
        found.sum().backward()
        wanted.sum().backward()
        torch.testing.assert_close(x.grad, y.grad, rtol=1e-5, atol=1e-5)

    def test_hidden_states_and_hooks(self):
        torch.manual_seed(0)
        model = llama()
        stock, seen = copy.deepcopy(model), []
        patch(model)
        model.model.layers[0].mlp.act_fn.register_forward_hook(lambda *_: seen.append("act"))
        model.model.layers[1].register_forward_hook(lambda *_: seen.append("layer"))
        found = model(input_ids=IDS, output_hidden_states=True).hidden_states
        wanted = stock(input_ids=IDS, output_hidden_states=True).hidden_states
        assert seen == ["act", "layer"] and len(found) == len(wanted) == 3
        for one, other in zip(found, wanted):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)

    def test_gradient_checkpointing_and_generate(self):
        torch.manual_seed(0)
        model = llama()
        stock = copy.deepcopy(model)
        patch(model)
        options = {"max_new_tokens": 4, "do_sample": False}
        assert torch.equal(model.generate(IDS, **options), stock.generate(IDS, **options))
        for own in (model, stock):
            own.train()
            own.gradient_checkpointing_enable({"use_reentrant": False})
        assert_close(step(model), step(stock))

    def test_half_precision(self):
        torch.manual_seed(0)
        model = llama().to(torch.bfloat16)
        stock = copy.deepcopy(model)
        patch(model)
        found, wanted = value(model), value(stock)
        assert found.dtype == wanted.dtype
        torch.testing.assert_close(found, wanted, rtol=0.1, atol=0.02)

    def test_tied_weights_stay_tied(self):
        model = gpt2()
        patch(model)
        assert model.lm_head.weight is model.transformer.wte.weight


class TestDiffusers:
    @pytest.mark.parametrize("approximate", ["none", "tanh"])
    def test_gelu(self, approximate, launched):
        self._same(DiffusersGELU(8, 16, approximate=approximate), torch.randn(4, 8))
        assert launched == ["add_gelu"]

    @pytest.mark.parametrize(
        ("module", "operators"),
        [(SwiGLU(8, 16), ["swiglu"]), (ApproximateGELU(8, 16), ["quick_gelu"]),
         (FeedForward(8, activation_fn="geglu"), ["geglu"]),
         (FeedForward(8, activation_fn="linear-silu"), ["add_swish"]),
         (DiffusersRMSNorm(8, eps=1e-6), ["rms_norm"])],
        ids=["SwiGLU", "ApproximateGELU", "geglu", "linear-silu", "RMSNorm"],
    )  # fmt: skip
    def test_feed_forward(self, module, operators, launched):
        self._same(module, torch.randn(4, 8))
        assert launched == operators

    def test_rms_norm_with_bias_is_left(self):
        report = patch(nn.Sequential(DiffusersRMSNorm(8, eps=1e-6, bias=True)))
        assert report.left[0].reason == "a configuration that fastgrad has no kernel for"

    def test_resnet_block_with_up(self, launched):
        block = ResnetBlock2D(in_channels=8, temb_channels=None, groups=2, up=True)
        self._same(block, torch.randn(2, 8, 4, 4), None)
        assert launched == ["group_norm_swish", "group_norm_swish"]

    def _same(self, module, *inputs):
        stock = copy.deepcopy(module)
        patch(module)
        torch.testing.assert_close(module(*inputs), stock(*inputs), rtol=1e-5, atol=1e-5)


def test_no_package_is_imported():
    code = (
        "import sys, fastgrad.torch.patching; print({'transformers', 'diffusers'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
