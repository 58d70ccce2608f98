// The server's types by their names; schema.ts is generated from its OpenAPI document.
import type { components } from "./schema.js";

type Schemas = components["schemas"];

export type AcceptedRun = Schemas["AcceptedRun"];
export type Agents = Schemas["AgentList"];
export type Agent = Schemas["AgentSummary"];
export type Approval = Schemas["Approval"];
export type OpenApprovals = Schemas["ApprovalPage"];
export type BoardEvent = Schemas["BoardEvent"];
export type BoardSnapshot = Schemas["BoardSnapshot"];
export type ControlledRun = Schemas["ControlledRun"];
export type Decided = Schemas["DecidedApproval"];
export type Decisions = Schemas["DecisionPage"];
export type DoctorReport = Schemas["DoctorReport"];
export type EndEvent = Schemas["EndEvent"];
export type Events = Schemas["EventPage"];
export type ForkedThread = Schemas["ForkedThread"];
export type Health = Schemas["Health"];
export type Message = Schemas["Message"];
export type Messages = Schemas["MessagePage"];
export type MetricRows = Schemas["MetricRows"];
export type Priority = NonNullable<Schemas["StartRun"]["priority"]>;
export type Queue = Schemas["Queue"];
export type Queues = Schemas["QueueList"];
export type QueuedMessage = Schemas["QueuedMessage"];
export type Run = Schemas["Run"];
export type RunCounts = Schemas["RunCounts"];
export type Runs = Schemas["RunPage"];
export type RunEvent = Schemas["Event"];
export type RunSummary = Schemas["RunSummary"];
export type Steps = Schemas["StepPage"];
export type Summaries = Schemas["SummaryPage"];
export type Thread = Schemas["Thread"];
export type Threads = Schemas["ThreadPage"];
export type Workers = Schemas["WorkerList"];
export type Workflow = Schemas["WorkflowShown"];
export type Workflows = Schemas["WorkflowList"];
