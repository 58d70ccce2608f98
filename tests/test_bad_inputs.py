"""Which tests try each class of bad input, by surface; and each single input is refused or harmless, in little time."""

from __future__ import annotations

import ast
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from tests.bad_inputs import entries, is_accepted

ROOT = Path(__file__).parent.parent
MANY_TIMES_THE_BAR_S = 2.0
"""CPU time; the bar, which the bench measures, is 0.1 s."""

_SANDBOX = "tests/agents/tools/isolation/test_sandbox.py::"
_URLS = "tests/config/egress/test_hostile_urls.py::"
_FETCH = "tests/config/egress/test_fetch.py::"
_SCHEMAS = "tests/config/definitions/schemas/test_json_schema.py::"
_TEMPLATES = "tests/agents/test_templates.py::"
_BODIES = "tests/web/test_bodies.py::"
_ENVELOPE = "tests/bus/broker/test_envelope.py::"
_FORGED = "tests/bus/journal/live/test_forged.py::"
_PLACES = "tests/config/test_secret_places.py::"
_LOGGER = "tests/observers/test_logger.py::"
_WEBHOOKS = "tests/observers/test_webhooks.py::"
_READ, _WRITE = f"{_SANDBOX}test_reading_is_refused", f"{_SANDBOX}test_writing_is_refused_and_changes_nothing_outside"
_ADDRESS = f"{_URLS}test_a_hostile_address_is_refused_at_once"
_REDIRECT = f"{_FETCH}test_a_redirect_to_what_may_not_be_asked_is_refused"
_PATTERN = f"{_SCHEMAS}test_a_pattern_is_refused_or_applied_in_linear_time"
_SCHEMA = f"{_SCHEMAS}test_a_schema_that_reaches_out_or_grows_is_refused"
_DATA = f"{_SCHEMAS}test_data_is_checked_against_a_schema_in_little_time"
_TEXT = f"{_TEMPLATES}test_a_template_stays_text_on_its_way_to_the_model_the_tool_and_back"
_PLAIN = f"{_BODIES}test_refuses_what_is_not_plain"
_ARGUMENTS = "tests/agents/tools/test_schema.py::test_what_two_readers_could_read_differently_is_refused"

TESTS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "path sandbox": {
        "parent folders, absolute paths, empty names, a sibling with the same beginning": (_READ, _WRITE),
        "links: in the middle, at the end, to itself, absolute, relative": (_READ, _WRITE),
        "a link made between the check and the opening": (
            f"{_SANDBOX}test_a_swap_between_folder_and_link_never_lets_anything_out",
        ),
        "a hard link to an outside file": (_READ, _WRITE),
        "another file system below the folder, /proc by its magic links": (
            f"{_SANDBOX}test_another_file_system_below_the_folder_is_not_entered",
        ),
        "devices, FIFO, socket, folder in place of a file": (_READ, _WRITE),
        "a huge sparse file": (f"{_SANDBOX}test_a_huge_file_without_content_is_not_read",),
        "names of 255 and 256 bytes, long paths, 3000 levels": (_READ, _WRITE),
        "NUL, line end, escape codes, lone surrogates, turned text": (_READ, _WRITE),
        "names that only look like a way out": (f"{_SANDBOX}test_what_only_looks_like_a_way_out_is_a_name",),
        "NFC and NFD twins": (f"{_SANDBOX}test_two_forms_of_one_letter_are_two_names",),
        "file://": (f"{_SANDBOX}test_a_url_is_no_path_of_a_file",),
        "files of the sandbox's own": (_READ, _WRITE),
        "an archive with a link that is written through": (
            f"{_SANDBOX}test_writing_through_an_unpacked_link_is_refused",
        ),
        "names of tenants, principals and agents as folders": ("tests/config/identity/test_contexts.py::",),
        "a sandbox that is filled": ("tests/agents/tools/test_files.py::test_a_sandbox_takes_no_more_than_its_quota",),
    },
    "HTTP": {
        "schemes, user names, spellings of loopback, special blocks, metadata services, ports": (_ADDRESS,),
        "a refusal tells nothing of the network": (f"{_URLS}test_a_refusal_tells_no_address_behind_a_name",),
        "redirects to private addresses and other schemes": (_REDIRECT,),
        "a redirect with a body to another origin": (
            "tests/config/egress/test_request.py::test_a_body_does_not_go_to_another_origin",
        ),
        "a loop of redirects": (f"{_FETCH}test_a_loop_of_redirects_ends",),
        "a name server that answers twice": (
            f"{_FETCH}test_a_second_answer_of_the_name_server_has_no_effect",
            f"{_FETCH}test_a_redirect_to_the_same_name_is_checked_anew",
        ),
        "proxies of the environment": (f"{_FETCH}test_proxies_of_the_environment_are_not_asked",),
        "credentials and cookies across hosts": (
            f"{_FETCH}test_another_origin_gets_no_credentials",
            f"{_FETCH}test_cookies_of_an_answer_are_not_kept",
        ),
        "an endless, packed, dripping, broken body": (
            f"{_FETCH}test_reading_a_body_stops_at_a_limit",
            f"{_FETCH}test_a_body_that_drips_is_read_for_as_long_as_it_may_take",
        ),
        "a header of 100 MB, no head, two lengths": (
            f"{_FETCH}test_an_answer_without_a_usable_head_leaves_the_outcome_open",
        ),
        "line ends in a URL, a header's name or value": (
            _ADDRESS,
            "tests/config/egress/test_request.py::test_a_header_that_would_change_the_request_is_refused",
        ),
        "metadata services as addresses of models and identity providers": (
            "tests/config/egress/test_operators.py::test_a_metadata_service_may_not_be_asked",
            "tests/agents/models/http/test_base.py::test_no_provider_is_asked_there",
            "tests/web/test_sign_in.py::test_a_metadata_service_is_no_provider",
            "tests/web/test_service_tokens.py::test_keys_come_from_no_metadata_service",
        ),
        "this server and its Redis as the target": (
            "tests/agents/test_http_requests.py::test_a_server_of_this_machine_gets_no_request_of_a_model",
        ),
    },
    "endpoints of webhooks": {
        "private addresses, metadata services, ports, a name that becomes private, redirects": (
            f"{_WEBHOOKS}test_private_addresses_and_those_of_metadata_services_are_not_asked",
            f"{_WEBHOOKS}test_a_name_that_becomes_private_between_two_look_ups_leads_nowhere_else",
            f"{_WEBHOOKS}test_a_redirect_is_not_followed",
        ),
        "200 and no body, a broken, packed or endless one": (
            f"{_WEBHOOKS}test_a_success_is_one_whatever_becomes_of_its_body",
        ),
        "slow, cut in its head, another protocol, a secret in its answer": (
            f"{_WEBHOOKS}test_what_is_no_success_is_a_failure_with_a_sentence",
        ),
        "a dead letter of an earlier release": (f"{_WEBHOOKS}test_a_dead_letter_of_an_earlier_release_is_sent_again",),
    },
    "regular expressions": {
        "nested quantifiers, alternatives that overlap, huge counts, backreferences, malformed": (_PATTERN,),
        "patterns of guardrails": (
            "tests/config/definitions/guardrails/test_prefix_patterns.py::test_a_pattern_that_cannot_be_used_is_refused_with_the_reason",
            "tests/config/definitions/guardrails/test_prefix_patterns.py::test_a_pattern_that_hangs_other_engines_is_linear_here",
        ),
        "conditions of the policy": (
            "tests/agents/governance/policy/test_condition.py::test_a_condition_that_cannot_be_used_is_refused",
            "tests/agents/governance/policy/test_condition.py::test_a_condition_that_fails_says_why_soon_and_in_little_memory",
        ),
        "the patterns of the sources": ("tests/test_regex_growth.py::test_no_pattern_grows_faster_than_its_text",),
        "every function that reads foreign text": ("tests/test_hostile_text.py::test_hostile_text_takes_linear_time",),
    },
    "templates": {
        "expressions, statements, format strings, shell, in every text of a run": (_TEXT,),
        "in the name of a tool": (f"{_TEMPLATES}test_a_template_as_the_name_of_a_tool_calls_none",),
        "in an error of a tool": (f"{_TEMPLATES}test_a_template_in_a_tools_error_and_in_its_values_stays_text",),
    },
    "JSON": {
        "duplicate keys, NaN, long numbers, deep nesting, surrogates, BOM, UTF-16, trailing data": (_PLAIN, _ARGUMENTS),
        "many keys, long texts": (f"{_BODIES}test_a_hostile_body_is_refused_before_anything_is_made_of_it",),
        "names that construct objects elsewhere": ("tests/agents/tools/test_schema.py::test_reads_objects",),
    },
    "JSON Schema": {
        "references out of the schema, loops, bombs, dialects, size": (_SCHEMA,),
        "data that is costly to check": (_DATA,),
        "arguments and results that do not fit": (_ARGUMENTS,),
    },
    "broker": {
        "pickle, YAML, msgpack": (f"{_ENVELOPE}test_nothing_is_unpickled",),
        "garbage, other tasks, built-in tasks": (
            f"{_ENVELOPE}test_what_is_no_message_is_refused_before_kombu_looks",
            f"{_ENVELOPE}test_what_is_no_command_of_ours_is_refused_before_celery_looks",
        ),
        "callbacks, limits, times": (f"{_ENVELOPE}test_nothing_is_obeyed_that_we_do_not_send",),
        "50 MB": (f"{_ENVELOPE}test_an_item_is_not_read_at_all_when_it_is_too_long",),
        "forged wake-ups, old ones sent again": (
            "tests/handlers/test_forged_messages.py::test_a_forged_wake_up_begins_nothing",
            "tests/handlers/test_forged_messages.py::test_an_old_wake_up_that_is_sent_again_begins_nothing",
            "tests/handlers/test_forged_messages.py::test_a_wake_up_for_a_queued_run_of_anyone_begins_it_as_its_owner_alone",
        ),
        "remote control": ("tests/bus/broker/test_celery_rules.py::test_a_changed_setting_is_found",),
        "forged events": (
            f"{_FORGED}test_unsigned_events_are_never_delivered",
            f"{_FORGED}test_a_body_of_another_run_cannot_be_said_again_in_this_one",
        ),
        "a Redis that others reach without a password": (
            "tests/web/doctor/test_servers.py::test_a_server_others_could_use_or_listen_to_is_reported_without_the_password",
        ),
        "names of keys from text of users": (
            "tests/bus/test_keys.py::test_a_tenants_name_cannot_reach_into_another_part_of_a_key",
        ),
        "a worker that meets all of it": (
            "tests/journeys/test_poison.py::test_a_worker_outlives_whatever_lies_on_its_queue",
        ),
    },
    "logs and secrets": {
        "line ends, escape codes, quotes in every field": (
            "tests/config/test_logs.py::test_one_record_is_one_line_whatever_is_in_it",
            f"{_LOGGER}test_a_record_is_one_line_whatever_it_holds",
        ),
        "a secret in a message, a header, a URL, an exception, its causes and notes": (
            f"{_PLACES}test_a_traceback_in_the_log_has_none",
            "tests/config/test_logs.py::test_no_secret_in_message_fields_or_traceback",
        ),
        "arguments and environment": (f"{_PLACES}test_arguments_and_environment_in_a_log_line_have_none",),
        "the settings among local variables": (
            f"{_PLACES}test_the_settings_have_none_in_a_traceback_with_local_variables",
        ),
        "values of SQL": (
            f"{_PLACES}test_a_statement_that_fails_shows_no_values",
            f"{_PLACES}test_a_row_that_does_not_fit_shows_no_values",
        ),
        "a task as Celery shows it": (f"{_PLACES}test_celery_shows_ids_of_a_task_and_nothing_else",),
        "an error that a client gets": ("tests/web/test_app.py::test_errors_behind_the_door",),
        "usual forms of keys, and base64 of them": (
            "tests/config/redaction/test_redactor.py::test_keys_of_the_usual_forms_are_gone_wherever_they_stand",
            "tests/config/redaction/test_redactor.py::test_their_base64_is_gone_too",
        ),
        "a secret in pieces": (
            f"{_LOGGER}test_a_secret_in_pieces_is_replaced_too",
            "tests/agents/governance/guardrails/test_stream.py::test_no_secret_leaks_wherever_it_is_split",
            "tests/agents/test_guardrails.py::test_a_secret_in_an_answer_is_neither_streamed_nor_stored",
        ),
        "arguments, results and errors of a tool": (
            "tests/agents/test_guardrails.py::test_a_call_with_a_secret_is_refused_and_recorded_without_it",
            "tests/agents/test_guardrails.py::test_a_result_is_recorded_and_given_to_the_model_without_secrets",
            "tests/agents/test_guardrails.py::test_a_secret_of_a_tool_reaches_the_tool_and_nothing_else",
        ),
    },
    "policy": {
        "unknown verdicts and fields, conditions that do not compile": (
            "tests/agents/governance/policy/test_policy_yaml.py::test_a_file_that_cannot_be_used_names_line_and_rule",
        ),
        "rules that contradict each other": (
            "tests/agents/governance/policy/test_policy_yaml.py::test_two_rules_that_contradict_each_other_are_refused",
        ),
        "a rule that never matches, or always does": (
            "tests/cli/test_policy.py::test_a_condition_that_is_the_same_for_every_call_is_named",
        ),
        "a policy that is edited into an invalid one": (
            "tests/agents/governance/policy/test_policy_yaml.py::test_a_policy_that_is_edited_into_an_invalid_one_stays_in_force",
        ),
        "an approval by another rule": (
            "tests/agents/injection/test_rule_of_two.py::test_an_approval_for_the_thread_by_another_rule_is_none_for_this_one",
        ),
    },
    "governance engine": {
        "slow, away, malformed, contradicting answers": (
            "tests/agents/governance/engine/test_remote.py::test_without_a_usable_answer_pure_calls_pass_and_others_do_not",
            "tests/agents/governance/engine/test_remote.py::test_an_engine_that_is_not_there",
            "tests/agents/governance/engine/test_governed_runs.py::test_a_slow_engine_costs_its_time_limit_and_no_more",
            "tests/agents/governance/engine/test_governed_runs.py::test_an_engine_that_flips_is_believed_at_each_call",
        ),
        "arguments that do not fit, or that a person has approved otherwise": (
            "tests/agents/governance/engine/test_governed_runs.py::test_a_redacted_input_that_does_not_fit_is_no_call",
            "tests/agents/governance/engine/test_governed_runs.py::test_the_engine_does_not_change_what_a_person_approved",
        ),
    },
    "capabilities": {
        "files that declare none": (
            "tests/config/definitions/test_capability.py::test_a_mistake_is_named_with_its_file_and_line",
        ),
        "names of images that are options": (
            "tests/agents/tools/runners/test_container.py::test_what_is_no_images_name_is_refused",
            "tests/agents/tools/runners/test_container.py::test_what_a_file_says_stands_behind_the_options",
        ),
        "an image that is not there": (
            "tests/agents/tools/runners/test_container.py::test_an_image_that_is_not_there_is_named",
        ),
        "100 MB of output, output that is no JSON or does not fit": (
            "tests/agents/tools/runners/test_contract.py::test_a_hundred_megabytes_cost_the_limit_and_no_more",
            "tests/agents/tools/runners/test_contract.py::test_an_output_that_is_not_json_is_an_error_and_no_result",
            "tests/agents/capabilities/test_folder.py::test_an_output_that_does_not_fit_its_schema_is_kept_back",
        ),
        "a secret reference to nothing": (
            "tests/config/definitions/test_secrets.py::test_a_reference_to_nothing_is_an_error_that_names_it",
        ),
        "daemons, forks, signals, workers that are killed": (
            "tests/agents/tools/runners/test_contract.py::test_a_daemon_in_a_session_of_its_own_ends_with_the_call",
            "tests/agents/tools/runners/test_process.py::test_hundreds_of_children_end_with_it",
            "tests/journeys/test_killed_calls.py::test_100_killed_calls_of_a_program_leave_no_process",
            "tests/journeys/test_killed_calls.py::test_100_killed_calls_of_containers_leave_no_container_and_no_process",
        ),
    },
    "privilege": {
        "grants that are forged, used, expired, of others; booleans, headers": (
            "tests/web/test_grants.py::test_what_is_no_grant_is_refused_and_makes_no_run",
            "tests/web/test_grants.py::test_other_forms_of_a_privilege_are_refused",
            "tests/web/test_grants.py::test_headers_give_no_privilege",
        ),
    },
    "the page's choices and plots": {
        "views of another version, torn or with foreign fields; storage that is full or forbidden": (
            "tests/web/page/test_saved_views.py::test_of_what_is_kept_that_is_used_which_can_be",
            "tests/browser/test_board_choices.py::test_views_of_another_version_are_left_out_with_a_sentence",
            "tests/browser/test_board_choices.py::test_a_browser_that_keeps_nothing_says_so_and_the_view_stays_for_now",
        ),
        "a plot with no, one and a million points": (
            "tests/browser/test_plot.py::test_a_plot_with_no_one_and_a_million_points_is_drawn",
        ),
        "markup and turned text in a worker's host and a view's name": (
            "tests/browser/test_fleet_view.py::test_workers_are_shown_with_what_is_wrong_with_each",
            "tests/browser/test_board_choices.py::test_a_list_is_named_kept_and_removed",
        ),
    },
    "tool calls": {
        "malformed and misfitting arguments, unknown tools, double ids, a hundred at once, pieces": (
            "tests/agents/test_odd_calls.py::test_a_call_that_does_not_fit_is_not_made_and_the_model_gets_the_reason",
            "tests/agents/test_odd_calls.py::test_calls_with_one_id_are_each_made_once",
            "tests/agents/test_odd_calls.py::test_a_model_that_only_makes_such_calls_comes_to_an_end",
        ),
    },
    "prompt injection": {
        "files, names of files, pages, headers, JSON, rows, errors, results, rejections, messages": (
            "tests/agents/injection/test_injection.py::test_obeying_an_injected_text_does_no_harm",
        ),
        "sensitive data for a host that may be asked, at once, in a later run, through a file": (
            "tests/agents/injection/test_rule_of_two.py::test_what_a_run_has_read_asks_a_person_before_it_leaves",
            "tests/agents/injection/test_rule_of_two.py::test_a_thread_remembers_what_its_earlier_runs_read",
            "tests/agents/injection/test_rule_of_two.py::test_rows_that_went_through_a_file_are_still_sensitive",
        ),
        "the attacks themselves": (
            "tests/agents/injection/test_injection.py::test_without_lists_and_approvals_the_same_model_does_harm",
        ),
    },
}
"""Surface -> class of input -> the tests that try it; a name that ends with ``::`` means all tests of the file."""


@cache
def _functions_of(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@pytest.mark.parametrize("surface", TESTS)
def test_every_class_of_bad_input_has_a_test(surface: str) -> None:
    for name, tests in TESTS[surface].items():
        assert tests, name
        for test in tests:
            file, _, function = test.partition("::")
            assert not function or function in _functions_of(file), f"{surface}: {name}: {test}"


@pytest.mark.parity  # a sandbox with a socket in it
def test_each_input_is_refused_or_harmless_in_little_time(tmp_path: Path) -> None:
    slow, count = [], 0
    for surface, inputs in entries(tmp_path).items():
        for name, entry in inputs.items():
            began = time.thread_time()
            is_accepted(entry)
            count += 1
            if time.thread_time() - began > MANY_TIMES_THE_BAR_S:
                slow.append(f"{surface}: {ascii(name)[:80]}")

    assert slow == []
    assert count > 500
