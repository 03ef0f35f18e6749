"""The broker port, the topology, and the implementations: in-process and RabbitMQ."""
