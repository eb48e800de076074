"""Kafka's wire protocol: values to bytes and bytes to values, no sockets, no state.

messages/   the definitions by subject; one class for all versions, with its API's routing, permissions and errors
fields      the notation of a definition; schema collects it
routing, permissions, error_policy   the notation of what a request's class declares besides its fields
lookup      the same by an API's name
reader, writer, codegen, primitives   generate the functions that read and write one (message, version)
codec       encode and decode one message
api         an API by its request's class, whole frames with their headers; registry has all APIs
versions    which version to use; rules that are in no definition
error_codes, errors                  the codes that brokers return; exceptions for invalid bytes and values
"""
