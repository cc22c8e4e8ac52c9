"""An audio encoder: strided convolutions over a second of sound, then a transformer; its output goes to 30 words."""

from torch import nn

INPUT, TARGET = {"shape": (1, 16000)}, {"shape": (), "dtype": "int32", "below": 30}
LOSS, OPTIMIZER, BATCH_SIZE = "cross_entropy", "AdamW", 32


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        sizes = [(1, 512, 10, 5), *[(512, 512, 3, 2)] * 3, *[(512, 512, 2, 2)] * 2]
        self.sound = nn.Sequential(*(layer for size in sizes for layer in (nn.Conv1d(*size), nn.GELU())))
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True), 4)
        self.head = nn.Linear(512, 30)

    def forward(self, sound):
        return self.head(self.encoder(self.sound(sound).transpose(1, 2)).mean(1))


def model():
    return Net()
