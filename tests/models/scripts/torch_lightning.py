"""A module of Lightning on four GPUs in 16 bits."""

import lightning
import torch


class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 2)

    def training_step(self, batch, index):
        loss = torch.nn.functional.cross_entropy(self.layer(batch[0]), batch[1])
        self.log("loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


data = torch.utils.data.TensorDataset(torch.zeros(640, 8), torch.zeros(640, dtype=torch.long))
trainer = lightning.Trainer(
    accelerator="gpu", devices=4, strategy="ddp", precision="16-mixed", max_epochs=3,
    logger=lightning.pytorch.loggers.WandbLogger(project="none"),
    enable_checkpointing=False,
)  # fmt: skip
trainer.fit(Net(), torch.utils.data.DataLoader(data, batch_size=64))
