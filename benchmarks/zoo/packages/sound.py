# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Speech, music and other signals: torchaudio, speechbrain, whisper, encodec, openunmix, nnAudio."""

from __future__ import annotations

import functools
from typing import Any

import torch

from zoo.packages.registry import Calls, floats, model, named, register

WAVE = floats(4000)


def _lengths(features: int) -> Any:
    """Features over time and how much of each row is one."""
    return lambda g, n: (
        torch.randn(n, 20, features, generator=g),
        torch.tensor([20, 13, 7][:n]),
    )


model("torchaudio.models:Conformer", _lengths(16), 16, 2, 32, 1, 7)
model("torchaudio.models:Emformer", _lengths(16), 16, 2, 32, 1, segment_length=4)
model("torchaudio.models:DeepSpeech", floats(1, 20, 8), 8, 32, 10)
model("torchaudio.models:Wav2Letter", floats(1, 2000), 10, "waveform", 1)

model("torchaudio.models:wav2vec2_model", WAVE, "group_norm", [(16, 10, 5), (16, 3, 2)], False, 32, 0.1, 8, 2, 2, 2, 0.1, 48, 0.1, 0.1, False, 0.0, 10)  # fmt: skip
model("torchaudio.models:hdemucs_low", floats(2, 16000), ["a", "b"])
model("torchaudio.transforms:Spectrogram", WAVE, n_fft=128)
model("torchaudio.transforms:MelSpectrogram", WAVE, 8000, n_fft=128, n_mels=16)
model("torchaudio.transforms:MFCC", WAVE, 8000, 8, melkwargs={"n_fft": 128, "n_mels": 16})  # fmt: skip
model("torchaudio.transforms:Resample", WAVE, 8000, 4000)
model("torchaudio.transforms:TimeMasking", floats(8, 40), 10)
model("torchaudio.transforms:FrequencyMasking", floats(8, 40), 4)
model("torchaudio.transforms:SpectralCentroid", WAVE, 8000, n_fft=128)
model("torchaudio.transforms:GriffinLim", lambda g, n: (torch.rand(n, 65, 20, generator=g),), n_fft=128, n_iter=4, rand_init=False)  # fmt: skip
model("torchaudio.transforms:SlidingWindowCmn", floats(20, 8), 10)


def _filter(name: str, *numbers: float) -> Any:
    function = named(f"torchaudio.functional:{name}")
    return Calls(lambda x: function(x.clamp(-1, 1), *numbers))


for _name, _numbers in {
    "lowpass_biquad": (8000, 500.0),
    "treble_biquad": (8000, 3.0),
    "overdrive": (),
    "phaser": (8000,),
    "mu_law_encoding": (256,),
}.items():
    _made = functools.partial(_filter, _name, *_numbers)
    register(f"torchaudio.functional.{_name}", _made, floats(400))

_LOBES = "speechbrain.lobes.models"
model(f"{_LOBES}.ECAPA_TDNN:ECAPA_TDNN", floats(30, 16), 16, channels=[16, 16, 16, 16, 48], lin_neurons=8, attention_channels=8)  # fmt: skip
model(f"{_LOBES}.CRDNN:CRDNN", floats(20, 16), input_size=16, cnn_channels=(8, 8), rnn_neurons=16, rnn_layers=1, dnn_neurons=16)  # fmt: skip
model(f"{_LOBES}.Xvector:Xvector", floats(40, 16), in_channels=16, tdnn_channels=[16, 16, 16, 16, 48], lin_neurons=8)  # fmt: skip
model("encodec.modules:SEANetEncoder", floats(1, 640), dimension=16, n_filters=4, ratios=[4, 2])  # fmt: skip
model("encodec.modules:SEANetDecoder", floats(16, 20), dimension=16, n_filters=4, ratios=[4, 2])  # fmt: skip
model("openunmix.model:OpenUnmix", floats(2, 65, 10), nb_bins=65, nb_channels=2, hidden_size=16, nb_layers=1)  # fmt: skip
model("nnAudio.features:STFT", floats(2000), n_fft=128, hop_length=64, verbose=False)
model("nnAudio.features:CQT1992v2", floats(8000), sr=8000, n_bins=24, verbose=False)


def _whisper() -> Any:
    sizes = named("whisper.model:ModelDimensions")(8, 20, 32, 2, 2, 64, 16, 32, 2, 2)
    return named("whisper.model:Whisper")(sizes)


register(
    "whisper.model.Whisper",
    _whisper,
    lambda g, n: (
        torch.randn(n, 8, 40, generator=g),
        torch.randint(0, 64, (n, 7), generator=g),
    ),
)
