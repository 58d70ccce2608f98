"""A client of Callboard: starts runs of agents, follows them, waits for them, answers their questions and stops them.

``Callboard`` is for plain code, ``AsyncCallboard`` for code on an event loop; both have the same methods.
"""

from callboard_client.asynchronous.callboard import AsyncCallboard as AsyncCallboard
from callboard_client.asynchronous.handle import AsyncRunHandle as AsyncRunHandle
from callboard_client.envelope import EnvelopeKey as EnvelopeKey
from callboard_client.errors import CallboardError as CallboardError
from callboard_client.errors import RequestRefused as RequestRefused
from callboard_client.errors import UnexpectedAnswer as UnexpectedAnswer
from callboard_client.errors import Unreachable as Unreachable
from callboard_client.events import ApprovalEvent as ApprovalEvent
from callboard_client.events import ChildEvent as ChildEvent
from callboard_client.events import ControlEvent as ControlEvent
from callboard_client.events import EndEvent as EndEvent
from callboard_client.events import ErrorEvent as ErrorEvent
from callboard_client.events import Event as Event
from callboard_client.events import HandoverEvent as HandoverEvent
from callboard_client.events import HistoryEvent as HistoryEvent
from callboard_client.events import MessageEvent as MessageEvent
from callboard_client.events import NodeEvent as NodeEvent
from callboard_client.events import ReasoningEvent as ReasoningEvent
from callboard_client.events import ResponseEvent as ResponseEvent
from callboard_client.events import StatusEvent as StatusEvent
from callboard_client.events import ToolEvent as ToolEvent
from callboard_client.events import ToolResultEvent as ToolResultEvent
from callboard_client.events import UnknownEvent as UnknownEvent
from callboard_client.events import WithdrawnEvent as WithdrawnEvent
from callboard_client.events import event_of as event_of
from callboard_client.fleet_records import DoctorReport as DoctorReport
from callboard_client.fleet_records import Queue as Queue
from callboard_client.fleet_records import RunCounts as RunCounts
from callboard_client.fleet_records import RunFilters as RunFilters
from callboard_client.fleet_records import Worker as Worker
from callboard_client.records import Agent as Agent
from callboard_client.records import AgentProblem as AgentProblem
from callboard_client.records import Approval as Approval
from callboard_client.records import ApprovalLink as ApprovalLink
from callboard_client.records import ControlledRun as ControlledRun
from callboard_client.records import Decided as Decided
from callboard_client.records import Executed as Executed
from callboard_client.records import ForkedThread as ForkedThread
from callboard_client.records import LoggedEvent as LoggedEvent
from callboard_client.records import Me as Me
from callboard_client.records import Message as Message
from callboard_client.records import Page as Page
from callboard_client.records import QueuedMessage as QueuedMessage
from callboard_client.records import Run as Run
from callboard_client.records import Summary as Summary
from callboard_client.records import Thread as Thread
from callboard_client.records import ThreadRun as ThreadRun
from callboard_client.retrying import Timeouts as Timeouts
from callboard_client.synchronous.callboard import Callboard as Callboard
from callboard_client.synchronous.handle import RunHandle as RunHandle
from callboard_client.version import VERSION as VERSION
from callboard_client.workflow_records import Step as Step
from callboard_client.workflow_records import Workflow as Workflow
