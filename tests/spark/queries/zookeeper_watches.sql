-- Watches that went off, by the kind of path: without the names of brokers, topics and sequences.
select run, path, change, count(*) as times, count(distinct node) as nodes
from (
    select run, node, change, regexp_replace(
        regexp_replace(path, '^(/brokers/ids|/brokers/topics|/config/[A-Za-z0-9_]+)/.+$', '\1/…'),
        '[0-9]{10}$', '…') as path
    from WatchFired
)
group by run, path, change
