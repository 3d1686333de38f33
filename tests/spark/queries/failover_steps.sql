-- Each step of taking office; its event is left when it is done.
select run, controller_epoch, node, step, count, took_us, id, time_us, time_us - took_us as begun_us
from FailoverStep
