-- Each message that a controller handled, what came of it, and the epoch that its broker held then.
select m.run, m.id, m.time_us, m.node, m.cause, m.actor, m.message, m.queue_us, m.handle_us,
    m.outcome,
    (select count(*) from LeaderElected e where e.run = m.run and e.cause = m.id) as elections,
    (select count(*) from ReplicaLeftIsr l where l.run = m.run and l.cause = m.id) as left_isr,
    r.controller_epoch
from control m
left join controller r on r.run = m.run and r.node = m.node
    and (m.time_us between r.elected_us and r.ended_us or m.id = r.cause)
where m.actor like '%/controller'
