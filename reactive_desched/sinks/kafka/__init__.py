"""The Kafka sink; the only package that imports aiokafka."""
