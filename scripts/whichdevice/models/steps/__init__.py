"""The functions of a training or inference step, in its framework: backends time them, forecasts count them."""
