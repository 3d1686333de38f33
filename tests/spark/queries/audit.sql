-- Promises that were broken, each with the event that broke it and what it should have been.
with lives_of as (
    select d.*, (select count(*) from births b where b.run = d.run and b.topic = d.topic
        and b.partition = d.partition and (b.time_us, b.id) <= (d.time_us, d.id)) as life
    from (
        select run, id, time_us, node, topic, partition, leader_epoch, isr, leader, replicas
        from LeaderElected
        union all
        select run, id, time_us, node, topic, partition, leader_epoch, isr, leader, null
        from ReplicaLeftIsr
        union all
        select run, id, time_us, node, topic, partition, leader_epoch, isr, null, null
        from IsrChanged
    ) d
),
winners as (
    select *, first_value(broker) over in_order as first, row_number() over in_order as which
    from ControllerElected
    window in_order as (partition by run, controller_epoch order by time_us, id)
),
led as (
    select d.*, (select count(*) from births b where b.run = d.run and b.topic = d.topic
        and b.partition = d.partition and (b.time_us, b.id) <= (d.time_us, d.id)) as life
    from (
        select run, id, time_us, node, topic, partition, leader_epoch
        from ReplicaRoleChanged where role = 'leader'
        union all
        select run, id, first_us, node, topic, partition, leader_epoch
        from first_appends where role = 'leader'
    ) d
),
marks as (
    select *, lag(high_watermark) over (partition by run, node, topic, partition, leader_epoch
        order by id) as before
    from HighWatermarkMoved where role = 'leader'
),
stamps as (
    select run, id, time_us, node, null as topic, null::bigint as partition,
        'one controller an epoch' as invariant,
        'broker ' || broker || ' won controller epoch ' || controller_epoch || ', which broker '
            || first || ' had won' as detail
    from winners where which > 1
    union all
    select run, id, time_us, node, null, null, 'controller epochs rise',
        'controller epoch ' || controller_epoch || ' came after controller epoch ' || most
    from (select *, (select max(b.controller_epoch) from ControllerElected b
        where b.run = e.run and (b.time_us, b.id) < (e.time_us, e.id)) as most
        from ControllerElected e) where controller_epoch < most
    union all
    select run, id, time_us, node, null, null, 'broker epochs rise',
        'broker epoch ' || broker_epoch || ' came after broker epoch ' || most
    from (select *, (select max(b.broker_epoch) from BrokerRegistered b
        where b.run = e.run and b.broker = e.broker and (b.time_us, b.id) < (e.time_us, e.id))
        as most from BrokerRegistered e) where broker_epoch < most
    union all
    select run, id, time_us, node, topic, partition, 'leader epochs never fall',
        'leader epoch ' || leader_epoch || ' came after leader epoch ' || most
    from (select *, (select max(b.leader_epoch) from lives_of b
        where b.run = e.run and b.topic = e.topic and b.partition = e.partition and b.life = e.life
        and (b.time_us, b.id) < (e.time_us, e.id)) as most from lives_of e)
    where leader_epoch < most
    union all
    select run, id, time_us, node, topic, partition, 'the ISR is within the replicas',
        case when has_strangers then 'in sync are ' || isr || ', of replicas ' || replicas
            else 'leader ' || leader || ' is not in the ISR ' || isr end
    from (select *,
            coalesce(isr <> '' and replicas <> '' and not list_has_all(
                string_split(replicas, ','), string_split(isr, ',')), false) as has_strangers
        from lives_of)
    where has_strangers or (leader >= 0 and not list_contains(string_split(isr, ','), leader::text))
    union all
    select run, id, time_us, node, topic, partition, 'one leader an epoch',
        node || ' led in leader epoch ' || leader_epoch || ', in which ' || first || ' had led'
    from (select *, first_value(node) over (partition by run, topic, partition, life, leader_epoch
        order by time_us, id) as first from led) where node <> first
    union all
    select run, id, time_us, node, topic, partition, 'high watermarks never fall',
        'the high watermark fell from ' || before || ' to ' || high_watermark
            || ' in leader epoch ' || leader_epoch
    from marks where high_watermark < before
    union all
    select run, id, time_us, node, topic, partition, 'states change by their tables',
        'a partition went from ' || before || ' to ' || after
    from PartitionStateChanged where before not like 'NonExistent%' and (before, after) not in (
        ('NewPartition', 'OnlinePartition'), ('OnlinePartition', 'OnlinePartition'),
        ('OfflinePartition', 'OnlinePartition'), ('NewPartition', 'OfflinePartition'),
        ('OnlinePartition', 'OfflinePartition'), ('OfflinePartition', 'OfflinePartition'),
        ('OfflinePartition', 'NonExistentPartition'))
    union all
    select run, id, time_us, node, topic, partition, 'states change by their tables',
        'a replica went from ' || before || ' to ' || after
    from ReplicaStateChanged where before not like 'NonExistent%' and (before, after) not in (
        ('NewReplica', 'OnlineReplica'), ('OnlineReplica', 'OnlineReplica'),
        ('OfflineReplica', 'OnlineReplica'), ('ReplicaDeletionIneligible', 'OnlineReplica'),
        ('NewReplica', 'OfflineReplica'), ('OnlineReplica', 'OfflineReplica'),
        ('OfflineReplica', 'OfflineReplica'), ('ReplicaDeletionIneligible', 'OfflineReplica'),
        ('OfflineReplica', 'ReplicaDeletionStarted'),
        ('ReplicaDeletionStarted', 'ReplicaDeletionSuccessful'),
        ('OfflineReplica', 'ReplicaDeletionIneligible'),
        ('ReplicaDeletionStarted', 'ReplicaDeletionIneligible'),
        ('ReplicaDeletionSuccessful', 'NonExistentReplica'))
)
select * from stamps
