"""Other people's reading of the protocol, to compare ours with."""

import warnings

with warnings.catch_warnings():
    # It reads its schemas by a call that Python 3.11 deprecates; our warnings are errors.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.errors import CorruptRecordError, kafka_errors
    from kafka.record.default_records import DefaultRecordBatchBuilder
    from kafka.record.memory_records import MemoryRecords

__all__ = ["CorruptRecordError", "DefaultRecordBatchBuilder", "MemoryRecords", "kafka_errors"]
