export { Callboard, type RunFilter, type RunQuery, type StartOptions, type ThreadOptions, type WorkflowOptions } from "./callboard.js";
export { ApiError } from "./errors.js";
export { Feed, type FeedEvent, type FeedHandlers, type FeedOptions, type FeedPage, type FeedState } from "./feed.js";
export { newKey, type HttpOptions } from "./http.js";
export { RunHandle, type Answer, type ControlOptions, type RepeatOptions, type RetryOptions } from "./run.js";
export { EventStreamParser, type ServerSentEvent } from "./sse.js";
export type * from "./types.js";
