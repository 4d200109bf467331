# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A function under checkpoint that the backward pass calls again: tensors."""

from __future__ import annotations

from typing import Any

import torch
from Integration.checkpoint_steps import World, again, changed, graph
from Integration.harness import attempt
from torch import nn


@changed
def test_own_tensor_is_written(w: World, x: Any, y: Any) -> Any:
    h = x.cos()
    out = again(lambda x: (w.layer(x) * h).sin(), x)
    h.add_(1)
    return w.finish(out.sum())


@changed
def test_argument_is_written(w: World, x: Any, y: Any) -> Any:
    h = x.cos()
    out = again(lambda h: (w.layer(h)).sin(), h)
    h.mul_(2)
    return w.finish(out.sum())


@changed
def test_view_of_an_argument_is_written(w: World, x: Any, y: Any) -> Any:
    h = x.cos()
    out = again(lambda h: (w.layer(h)).sin(), h)
    h[0].mul_(2)
    return w.finish(out.sum())


@changed
def test_argument_is_reshaped(w: World, x: Any, y: Any) -> Any:
    h = x.cos()
    out = again(lambda h: (h * w.layer.weight[0]).sin(), h)
    h.unsqueeze_(0)
    return w.finish(out.sum())


@changed
def test_data_of_an_argument_is_set(w: World, x: Any, y: Any) -> Any:
    h = x.cos()
    out = again(lambda h: (h * w.layer.weight[0]).sin(), h)
    h.data = y.cos()
    return w.finish(out.sum())


@changed
def test_result_goes_to_the_next_and_is_written(w: World, x: Any, y: Any) -> Any:
    h = again(lambda x: w.layer(x).sin(), x)
    out = again(lambda h: w.other(h).sin(), h)
    with torch.no_grad():
        h.mul_(2)
    return w.finish(out.sum())


@changed
def test_input_is_written(w: World, x: Any, y: Any) -> Any:
    out = again(lambda x: (w.layer(x) * y).sin(), x)
    y.add_(1)
    return w.finish(out.sum()), y.clone()


@changed
def test_data_of_a_parameter_is_set(w: World, x: Any, y: Any) -> Any:
    out = again(lambda x: w.layer(x).sin(), x)
    w.layer.weight.data = w.layer.weight.data * 0.5
    return w.finish(out.sum())


@changed
def test_parameter_is_frozen(w: World, x: Any, y: Any) -> Any:
    out = again(lambda x: w.layer(x).sin(), x)
    w.layer.weight.requires_grad_(False)
    result = attempt(w.finish, out.sum())
    w.layer.weight.requires_grad_(True)
    return result


@changed
def test_called_with_other_parameters(w: World, x: Any, y: Any) -> Any:
    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = w.layer

        def forward(self, x: Any) -> Any:
            return again(lambda x: self.layer(x).sin(), x)

    twice = {"layer.weight": w.layer.weight * 2}
    return w.finish(torch.func.functional_call(Checkpointed(), twice, x).sum())


@changed
def test_optimizer_steps_between(w: World, x: Any, y: Any) -> Any:
    out = again(lambda x: w.layer(x).sin(), x)
    w.finish(w.other(y).square().sum())
    return w.finish(out.sum())


@changed
def test_tensor_that_a_number_is_read_of_is_written(w: World, x: Any, y: Any) -> Any:
    def f(x: Any) -> Any:
        return (w.layer(x) * int(w.norm.num_batches_tracked)).sin()

    out = again(f, x)
    w.norm.num_batches_tracked.add_(1)
    return w.finish(out.sum())


@changed
def test_gradient_is_read(w: World, x: Any, y: Any) -> Any:
    w.layer(y).sum().backward()
    out = again(lambda x: (w.layer(x) * w.layer.bias.grad).sin(), x)
    w.optimizer.zero_grad(set_to_none=False)
    return w.finish(out.sum())


@changed
def test_gradient_is_given(w: World, x: Any, y: Any) -> Any:
    w.layer(y).sum().backward()
    out = again(lambda x, g: (w.layer(x) * g).sin(), x, w.layer.bias.grad)
    w.optimizer.zero_grad(set_to_none=False)
    return w.finish(out.sum())


@changed
def test_batch_norm_within(w: World, x: Any, y: Any) -> Any:
    return w.finish(again(lambda x: w.norm(w.layer(x)).sin(), x).sum())


@graph
def test_batch_norm_behind(w: World, x: Any, y: Any) -> Any:
    out = again(lambda x: w.layer(x).sin(), x)
    return w.finish(w.norm(out).square().sum())


@graph
def test_other_tensors_are_written(w: World, x: Any, y: Any) -> Any:
    h = y.cos()
    out = again(lambda x: w.layer(x).sin(), x)
    h.add_(out.detach())
    return w.finish((out * h).sum())


@graph
def test_own_lists_grow(w: World, x: Any, y: Any) -> Any:
    losses, hidden = [], {}
    for i, layer in enumerate([w.layer, w.other]):
        hidden[i] = x = again(lambda x, layer=layer: layer(x).sin(), x)
        losses.append(x.square().mean())
    return w.finish(sum(losses)), len(hidden)


@graph
def test_two_losses_in_turn(w: World, x: Any, y: Any) -> Any:
    losses = []
    for batch in (x, y):
        loss = again(lambda x: w.layer(x).sin(), batch).sum()
        loss.backward()
        losses.append(loss.detach())
    w.optimizer.step()
    w.optimizer.zero_grad()
    return losses


@changed
def test_two_graphs_and_a_write_between(w: World, x: Any, y: Any) -> Any:
    w.number = 1.0
    first = again(lambda x: (w.layer(x) * w.number).sin(), x).sum()
    second = again(lambda x: (w.other(x) * w.number).sin(), y).sum()
    first.backward()
    w.number = 3.0
    return w.finish(second)


@changed
def test_backward_in_two_times(w: World, x: Any, y: Any) -> Any:
    w.number = 1.0
    loss = again(lambda x: (w.layer(x) * w.number).sin(), x).sum()
    loss.backward(retain_graph=True)
    w.number = 3.0
    return w.finish(loss)


@changed
def test_gradients_of_gradients(w: World, x: Any, y: Any) -> Any:
    x.requires_grad_()
    out = again(lambda x: w.layer(x).sin(), x)
    (gradient,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    return w.finish(gradient.square().sum())


@changed
def test_parameter_is_updated_in_the_backward(w: World, x: Any, y: Any) -> Any:
    def update(p: Any) -> None:
        with torch.no_grad():
            p.sub_(0.1 * p.grad)
        p.grad = None

    handle = w.layer.bias.register_post_accumulate_grad_hook(update)
    h = again(lambda x: w.layer(x).sin(), x)
    result = w.finish(again(lambda h: (w.layer(h) * w.layer.bias).sin(), h).sum())
    handle.remove()
    return result
