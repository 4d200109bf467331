# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Graphs, flows, operators of physics, equations, geometry and probabilities."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from zoo.packages.registry import Calls, Given, floats, model, named, register

POINTS = 12


def graph(edges: int = 30, features: int = 8) -> Given:
    """Nodes and edges of one graph, whose number of edges depends on the batch."""
    return lambda g, n: (
        torch.randn(POINTS, features, generator=g),
        torch.randint(0, POINTS, (2, edges + n), generator=g),
    )


_LAYERS: dict[str, dict[str, Any]] = {
    "GCNConv": {},
    "GATConv": {"heads": 2},
    "GATv2Conv": {"heads": 2},
    "SAGEConv": {},
    "GraphConv": {},
    "TAGConv": {},
    "ChebConv": {"K": 2},
    "SGConv": {},
    "ARMAConv": {},
    "TransformerConv": {"heads": 2, "dropout": 0.1},
    "ResGatedGraphConv": {},
    "LEConv": {},
    "GENConv": {},
    "GeneralConv": {},
    "MFConv": {},
    "FeaStConv": {"heads": 2},
    "ClusterGCNConv": {},
    "SuperGATConv": {"heads": 2},
}
for _name, _extra in _LAYERS.items():
    model(f"torch_geometric.nn:{_name}", graph(), 8, 6, **_extra)
for _name in ("GIN", "GCN", "GraphSAGE", "GAT", "PNA", "EdgeCNN"):
    _more: dict[str, Any] = {"dropout": 0.1, "jk": "cat" if _name == "GCN" else None}
    if _name == "PNA":
        _more |= {"aggregators": ["mean", "max"], "scalers": ["identity"], "deg": torch.ones(8)}  # fmt: skip
    model(f"torch_geometric.nn:{_name}", graph(), 8, 16, 2, 4, **_more)


def _pooled(pool: str) -> Any:
    nn_ = "torch_geometric.nn"
    convolution, function = named(f"{nn_}:GCNConv")(8, 6), named(f"{nn_}:{pool}")
    batch = torch.arange(POINTS) // 4
    return Calls(lambda c, x, e: function(torch.relu(c(x, e)), batch), convolution)


for _name in ("global_mean_pool", "global_max_pool", "global_add_pool"):
    register(f"torch_geometric.nn.{_name}", functools.partial(_pooled, _name), graph())

model("egnn_pytorch:EGNN", lambda g, n: (torch.randn(n, 8, 32, generator=g), torch.randn(n, 8, 3, generator=g)), dim=32)  # fmt: skip


def _flow(path: str, *args: Any, **kwargs: Any) -> Callable[[], Any]:
    def make() -> Any:
        return Calls(lambda f, x: f().log_prob(x), named(path)(*args, **kwargs))

    return make


for _name in ("NSF", "MAF", "NICE", "NAF", "SOSPF", "GF", "BPF", "NCSF"):
    _kind = {"NAF": {"hidden_features": (16,)}, "GF": {}}.get(_name, {"transforms": 2})
    register(f"zuko.flows.{_name}", _flow(f"zuko.flows:{_name}", 3, 0, **_kind), floats(3))  # fmt: skip


def _conditional() -> Any:
    flow = named("zuko.flows:NSF")(3, 4, transforms=2)
    return Calls(lambda f, x, c: f(c).log_prob(x), flow)


register("zuko.flows.NSF conditional", _conditional, lambda g, n: (torch.randn(n, 3, generator=g), torch.randn(n, 4, generator=g)))  # fmt: skip


def _real_nvp() -> Any:
    nf = named("normflows:flows")
    mlp = named("normflows:nets.MLP")
    flows: list[Any] = []
    for _ in range(2):
        flows += [nf.AffineCouplingBlock(mlp([1, 8, 2], init_zeros=True)), nf.Permute(2)]  # fmt: skip
    base = named("normflows:distributions.DiagGaussian")(2)
    made = named("normflows:NormalizingFlow")(base, flows)
    return Calls(lambda f, x: f.log_prob(x), made)


register("normflows.RealNVP", _real_nvp, floats(2))


def _nflows(kind: str) -> Any:
    if kind == "maf":
        made = named("nflows.flows:MaskedAutoregressiveFlow")(4, 8, 2, 1)
    else:
        transforms = named("nflows.transforms:CompositeTransform")(
            [
                named("nflows.transforms:RandomPermutation")(4),
                named(
                    "nflows.transforms:MaskedPiecewiseRationalQuadraticAutoregressiveTransform"
                )(4, 8, tails="linear", tail_bound=3.0),
            ]
        )
        base = named("nflows.distributions:StandardNormal")([4])
        made = named("nflows.flows:Flow")(transforms, base)
    return Calls(lambda f, x: f.log_prob(x), made)


register("nflows.maf", lambda: _nflows("maf"), floats(4))
register("nflows.spline", lambda: _nflows("spline"), floats(4))

_OPERATORS = "neuralop.models"
model(f"{_OPERATORS}:FNO", floats(1, 16, 16), n_modes=(4, 4), hidden_channels=8, in_channels=1, out_channels=1, n_layers=2)  # fmt: skip
model(f"{_OPERATORS}:TFNO", floats(1, 16, 16), n_modes=(4, 4), hidden_channels=8, in_channels=1, out_channels=1, n_layers=2)  # fmt: skip
model(f"{_OPERATORS}:UNO", floats(1, 16, 16), 1, 1, 8, uno_out_channels=[8, 8], uno_n_modes=[[4, 4], [4, 4]], uno_scalings=[[1.0, 1.0], [1.0, 1.0]], channel_mlp_skip="linear", n_layers=2)  # fmt: skip
model(f"{_OPERATORS}.local_no:LocalNO", floats(1, 16, 16), n_modes=(4, 4), hidden_channels=8, in_channels=1, out_channels=1, n_layers=2, default_in_shape=(16, 16))  # fmt: skip


def _ode(method: str) -> Any:
    solve = named("torchdiffeq:odeint")
    slope = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 3))
    times = torch.linspace(0, 1, 5)
    return Calls(lambda m, y: solve(lambda t, y: m(y), y, times, method=method), slope)


for _name in ("rk4", "euler", "midpoint", "dopri5", "implicit_adams"):
    register(f"torchdiffeq.{_name}", functools.partial(_ode, _name), floats(3))


def _adjoint() -> Any:
    solve = named("torchdiffeq:odeint_adjoint")

    class Slope(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.tanh(self.layer(y)) * t

    times = torch.linspace(0, 1, 5)
    return Calls(lambda m, y: solve(m, y, times, method="rk4"), Slope())


register("torchdiffeq.adjoint", _adjoint, floats(3))


def _sde() -> Any:
    class Equation(nn.Module):
        noise_type, sde_type = "diagonal", "ito"

        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def f(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return self.layer(y)

        def g(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return y.sigmoid()

    solve, times = named("torchsde:sdeint"), torch.linspace(0, 1, 4)
    return Calls(lambda m, y: solve(m, y, times, dt=0.25, method="euler"), Equation())


register("torchsde.euler", _sde, floats(3))
model("e3nn.o3:FullyConnectedTensorProduct", lambda g, n: (torch.randn(n, 5, generator=g), torch.randn(n, 5, generator=g)), "2x0e+1x1o", "2x0e+1x1o", "2x0e+1x1o")  # fmt: skip
model("e3nn.o3:SphericalHarmonics", floats(3), [0, 1, 2], True)
model("e3nn.o3:Linear", floats(5), "2x0e+1x1o", "2x0e+1x1o")


def _kernel(name: str) -> Any:
    kernels = named("gpytorch:kernels")
    kernel = kernels.ScaleKernel(getattr(kernels, name)())
    return Calls(lambda k, x: k(x).to_dense(), kernel)


for _name in ("RBFKernel", "MaternKernel", "LinearKernel", "PeriodicKernel"):
    register(f"gpytorch.{_name}", functools.partial(_kernel, _name), floats(8, 2))


def _process() -> Any:
    gpytorch = named("gpytorch:__dict__")
    likelihood = gpytorch["likelihoods"].GaussianLikelihood()

    class Process(gpytorch["models"].ExactGP):  # type: ignore[misc]
        def __init__(self) -> None:
            x = torch.linspace(0, 1, 8)
            super().__init__(x, torch.sin(x * 6), likelihood)
            self.mean_module = gpytorch["means"].ConstantMean()
            self.covar_module = gpytorch["kernels"].ScaleKernel(gpytorch["kernels"].RBFKernel())  # fmt: skip

        def forward(self, x: torch.Tensor) -> Any:
            mean, covariance = self.mean_module(x), self.covar_module(x)
            return gpytorch["distributions"].MultivariateNormal(mean, covariance)

    made = Process()
    return Calls(lambda m, x: m(x[:, 0]).mean, made.eval())


register("gpytorch.ExactGP", _process, floats(1))


def _tensorly() -> Any:
    return named("tltorch:FactorizedLinear")((2, 4), (2, 2), rank=2)


register("tltorch.FactorizedLinear", _tensorly, floats(8))
