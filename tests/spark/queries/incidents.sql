-- A fault, a broker that left or went without a fault of its own, a session or a disk lost without one.
with known as (
    select run, time_us, id, fault as what, target, detail, number from FaultInjected
    where fault <> 'restart'
    union all
    select l.run, l.time_us, l.id, 'shutdown', l.node, '', 0 from BrokerStateChanged l
    where l.state = 'PendingControlledShutdown' and not exists (
        from FaultInjected k where k.run = l.run and k.target = l.node and k.fault <> 'restart'
        and l.time_us - k.time_us between 0 and 1000000)
    union all
    select s.run, s.time_us, s.id, s.reason, s.node, '', 0 from NodeStopped s
    where s.reason <> 'stopped' and not exists (
        from FaultInjected k where k.run = s.run and k.target = s.node and k.fault <> 'restart'
        and s.time_us - k.time_us between 0 and 1000000)
    union all
    select e.run, e.time_us, e.id, 'session lost', e.node, '', 0 from SessionChanged e
    where e.state = 'expired' and not exists (
        from FaultInjected k where k.run = e.run and k.target = e.node and k.fault <> 'restart'
        and e.time_us - k.time_us between 0 and 120000000)
    union all
    select d.run, d.time_us, d.id, 'disk failed', d.node, '', 0 from LogDirWentOffline d
    where not exists (
        from FaultInjected k where k.run = d.run and k.target = d.node and k.fault <> 'restart'
        and d.time_us - k.time_us between 0 and 120000000)
),
numbered as (
    select *,
        row_number() over (partition by run order by time_us, id) as incident,
        coalesce(lead(time_us) over (partition by run, target order by time_us, id), end_us)
            as until_us
    from known join ends using (run) where time_us < end_us
),
mends as (
    select run, target, time_us as mended_us from FaultHealed where number = 0
    union all select run, node, time_us from NodeStarted
)
select run, time_us, id, what, target, detail, number, end_us, incident, until_us,
    coalesce(
        (select min(h.time_us) from FaultHealed h where h.run = n.run and h.number = n.number
            and n.number > 0),
        (select min(m.mended_us) from mends m where m.run = n.run and m.target = n.target
            and m.mended_us > n.time_us and m.mended_us <= n.until_us)
    ) as mended_us
from numbered n
