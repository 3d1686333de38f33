-- How often each machine went from one state to another, and how often it was refused to.
select run, machine, before, after, count(*) filter (not refused) as changes, count(*) filter (refused) as refused
from (
    select run, 'partition' as machine, before, after, false as refused from PartitionStateChanged
    union all
    select run, 'replica', before, after, false from ReplicaStateChanged
    union all
    select run, if(broker = -1, 'partition', 'replica'), before, wanted, true from TransitionRefused
)
group by all
