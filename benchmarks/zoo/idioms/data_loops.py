# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loops and branches over data."""

from __future__ import annotations

import torch

from zoo.idioms.registry import I, T, idiom


@idiom(lambda g, n: (T(g, 12, 8), I(g, 12, n, 1)))
def greedy_decoding(table, ids):
    for _ in range(5):
        scores = table[ids[:, -1]] @ table.T
        nxt = scores.argmax(-1, keepdim=True)
        ids = torch.cat([ids, nxt], 1)
    return ids


@idiom(lambda g, n: (T(g, 12, 8), I(g, 12, n, 1)))
def beam_search(table, ids):
    beams, scores = [ids], [torch.zeros(ids.shape[0])]
    b, k = ids.shape[0], 3
    ids = ids.repeat_interleave(k, 0)
    total = torch.zeros(b, k)
    total[:, 1:] = -1e9
    for _ in range(3):
        logp = (table[ids[:, -1]] @ table.T).log_softmax(-1).view(b, k, -1)
        flat = (total.unsqueeze(-1) + logp).view(b, -1)
        total, at = flat.topk(k, -1)
        parent, token = at // logp.shape[-1], at % logp.shape[-1]
        rows = (torch.arange(b).unsqueeze(1) * k + parent).view(-1)
        ids = torch.cat([ids[rows], token.view(-1, 1)], 1)
        beams.append(ids)
        scores.append(total)
    return ids, total, beams


@idiom(lambda g, n: (T(g, 12, 8), I(g, 12, n, 1)))
def decoding_until_end(table, ids):
    done = torch.zeros(ids.shape[0], dtype=torch.bool)
    for _ in range(6):
        nxt = (table[ids[:, -1]] @ table.T).argmax(-1)
        nxt = torch.where(done, torch.zeros_like(nxt), nxt)
        ids = torch.cat([ids, nxt[:, None]], 1)
        done = done | (nxt == 3)
        if done.all():
            break
    return ids


@idiom()
def branch_on_data(x):
    return x * 2 if x.sum() > 0 else x - 1


@idiom()
def item_and_tolist(x):
    k = x.sum().item()
    return x * k, x.shape[0] + int(x.max()), x[0].tolist()


@idiom(lambda g, n: (T(g, n, 8),))
def data_dependent_while(x):
    n = 0
    while x.abs().max() > 0.1:
        x = x * 0.5
        n += 1
    return x, n


@idiom(lambda g, n: (T(g, n, 4, 8),))
def generalised_advantage(rewards):
    advantage, out = torch.zeros(4, 8), []
    for t in reversed(range(rewards.shape[0])):
        advantage = rewards[t] + 0.99 * 0.95 * advantage
        out.insert(0, advantage)
    return torch.stack(out)


@idiom(lambda g, n: (T(g, n, 8),))
def rnn_by_hand(x):
    h = torch.zeros(8)
    outs = []
    for step in x:
        h = torch.tanh(step + h * 0.5)
        outs.append(h)
    return torch.stack(outs), h


@idiom(lambda g, n: (T(g, n, 8),))
def preallocated_output(x):
    out = torch.empty(x.shape[0], 4)
    for i in range(x.shape[0]):
        out[i] = x[i, :4] * i
    result = torch.zeros(x.shape[0], x.shape[0])
    for i in range(x.shape[0]):
        for j in range(i):
            result[i, j] = (x[i] * x[j]).sum()
    return out, result


@idiom(lambda g, n: (T(g, n, 8),))
def sinkhorn(x):
    log = x @ x.T
    for _ in range(5):
        log = log - log.logsumexp(1, keepdim=True)
        log = log - log.logsumexp(0, keepdim=True)
    return log.exp()


@idiom(lambda g, n: (torch.rand(n, 4, generator=g), T(g, n)))
def boxes_and_nms(b, s):
    import torchvision

    b = torch.cat([b[:, :2], b[:, :2] + b[:, 2:]], 1)
    return torchvision.ops.box_iou(b, b), torchvision.ops.nms(b, s, 0.3)
