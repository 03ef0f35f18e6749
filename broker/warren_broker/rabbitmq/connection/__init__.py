"""Connections to a RabbitMQ server that heal by themselves."""
