"""A server of requests: weights and cache, an iteration's time, the queue, and a forecast of it all."""
