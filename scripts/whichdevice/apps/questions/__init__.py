"""Questions of `ask` and `serve`: what is read, forecast and measured for one answer."""
