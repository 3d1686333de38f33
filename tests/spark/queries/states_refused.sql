-- Refused changes by the message that led to them, with the first that it happened to.
with handled as (
    select t.*, if(broker = -1, 'partition', 'replica') as machine, m.actor, m.message,
    from TransitionRefused t left join control m on m.run = t.run and m.id = t.cause
)
select run, machine, before, wanted, actor, message, count(*) as times, min(time_us) as first_us,
    arg_min(topic, (time_us, id)) as topic, arg_min(partition, (time_us, id)) as partition,
    arg_min(broker, (time_us, id)) as broker
from handled group by run, machine, before, wanted, actor, message
