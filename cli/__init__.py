"""The terminal: ``commands/`` has one file per command, ``dev/`` those that develop Callboard.

The other folders and files hold what commands share.

``main.py`` maps names to commands and imports only the one that runs, so ``--help`` is quick. No other folder imports
this one.

``GROUPS`` lists the commands, which ``--help`` shows without importing one.
"""

from __future__ import annotations

Commands = dict[str, tuple[str, str]]
"""name -> (module:attribute, its line in --help); a new command is a line here and a file in ``cli/commands``."""

GROUPS: dict[str, Commands] = {
    "Run": {
        "up": ("cli.commands.up:up", "Start everything and print the page's address."),
        "run": ("cli.commands.run:run", "Run an agent or a workflow, in this process or detached."),
        "chat": ("cli.commands.chat:chat", "Talk with an agent on this terminal."),
        "retry": ("cli.commands.repeats:retry", "Retry runs that did not succeed."),
    },
    "Watch": {
        "runs": ("cli.commands.runs:runs", "List the runs."),
        "watch": ("cli.commands.watch:watch", "Follow a run, from its beginning or from a cursor."),
        "open": ("cli.commands.watch:open_page", "Open a run's page in the browser."),
        "threads": ("cli.commands.threads:threads", "List the threads."),
        "logs": ("cli.commands.logs:logs", "Show what the logger observer wrote."),
    },
    "Answer and control": {
        "approve": ("cli.commands.approve:approve", "Answer a run's approval request."),
        "cancel": ("cli.commands.control:cancel", "Stop a run."),
        "steer": ("cli.commands.control:steer", "Give a running run a message."),
        "signal": ("cli.commands.control:signal", "Give a workflow the signal that a node waits for."),
        "set": ("cli.commands.control:set", "Change limits of an open run."),
        "pause": ("cli.commands.control:pause", "Leave a run between two steps, without a worker."),
        "resume": ("cli.commands.control:resume", "Continue a paused run."),
    },
    "Agents and tools": {
        "agents": ("cli.commands.agents:agents", "List the agents, and check each one."),
        "workflows": ("cli.commands.workflows:workflows", "List the workflows, draw and check them."),
        "tools": ("cli.commands.tools:tools", "List the agents' tools, and call one."),
        "mcp": ("cli.commands.mcp:mcp", "List and try MCP servers; serve agents and tools to MCP clients."),
        "capability": ("cli.commands.capability:capability", "List and check the capabilities, and write a new one."),
        "webhooks": ("cli.commands.webhooks:webhooks", "List the webhooks that others send, and check each one."),
        "policy": ("cli.commands.policy:policy", "Check the policy, and try it on recorded runs."),
        "crashtest": (
            "cli.commands.crashtest:crashtest",
            "Kill an agent's run at each failpoint, and check the outcome.",
        ),
    },
    "Operate": {
        "doctor": ("cli.commands.doctor:doctor", "Report problems of this installation, with remedies."),
        "workers": ("cli.commands.workers:workers", "List the living workers."),
        "worker": ("cli.commands.worker:worker", "Keep worker processes running on this machine."),
        "web": ("cli.commands.web:web", "Serve HTTP and the page."),
        "observe": ("cli.commands.observe:observe", "Feed observers from the log, in a process of their own."),
        "observers": (
            "cli.commands.observers:observers",
            "List the observers that tail the log, pause and reset them.",
        ),
        "discord": ("cli.commands.discord:discord", "Answer persons on Discord with an agent."),
        "slack": ("cli.commands.slack:slack", "Answer persons on Slack with an agent."),
        "email": ("cli.commands.email:email", "Answer the mails of a mailbox with an agent."),
        "migrate": ("cli.commands.database:migrate", "Bring the database to the schema this code needs."),
        "backup": ("cli.commands.database:backup", "Copy the database to a file while everything runs."),
        "completion": ("cli.commands.completion:completion", "Print what completes commands and ids in your shell."),
    },
    "Access": {
        "keys": ("cli.commands.keys:keys", "Create, list and revoke API keys."),
        "principals": ("cli.commands.principals:principals", "List, disable and enable principals."),
        "grant": ("cli.commands.grant:grant", "Let a principal start one run in privileged mode."),
        "grants": ("cli.commands.grant:grants", "List and revoke privilege grants."),
        "audit": ("cli.commands.audit:audit", "List, verify and export the audit log."),
    },
}
DEVELOPERS: Commands = {
    "check": ("cli.dev.commands.check:check", "Format, lint, import rules, types, unit tests."),
    "test": ("cli.dev.commands.test:test", "The check, then the tests that need real processes."),
    "bench": ("cli.dev.commands.apart:bench", "Measure Callboard beside naive alternatives."),
    "soak": ("cli.dev.commands.apart:soak", "Run randomized tests for a long time."),
    "docs": ("cli.dev.commands.docs:docs", "Build the site of the documents, and docs/llms.txt."),
    "lock": ("cli.dev.commands.lock:lock", "Compile both requirements locks again from pyproject.toml."),
}
"""The commands that develop Callboard, in ``cli/dev/commands``; ``--help`` lists them apart."""
GROUPS["Developing Callboard"] = DEVELOPERS
COMMANDS: Commands = {name: command for group in GROUPS.values() for name, command in group.items()}

COMPLETION = "cli.completion.sketch:sketched"
"""What has the commands' words for a shell, without the commands' modules."""

EXAMPLES: dict[str, tuple[str, ...]] = {
    "up": ("up", "up --port 9000 --workers 2", "up --open"),
    "run": (
        'run assistant "What is 17 * 23?"',
        "cat letter.txt | ./callboard run calendar",
        "run orders --input '{\"order\": 17}' --detach",
    ),
    "chat": ("chat assistant", "chat assistant --thread 4k2m9x"),
    "retry": ("retry 4k2m9x", "retry --status failed --since 2h"),
    "runs": (
        "runs --status open",
        "runs --live",
        "runs --since 1h --code model_timeout",
        "runs -o name --status failed | xargs ./callboard retry",
    ),
    "watch": ("watch", "watch 4k2m9x", "watch 4k2m9x --json | jq -r .type"),
    "open": ("open", "open 4k2m9x"),
    "threads": ("threads --search invoice", "threads 7f3k2q", "threads fork 7f3k2q --at 4"),
    "logs": ("logs 4k2m9x", "logs -f"),
    "approve": ("approve", "approve 4k2m9x", 'approve 4k2m9x --decision reject --message "we have enough paper"'),
    "cancel": ("cancel 4k2m9x", "runs -o name --status queued | xargs -n1 ./callboard cancel"),
    "steer": ('steer 4k2m9x "Use euros, not dollars"', 'steer 4k2m9x "Stop after the third page" --json'),
    "signal": ("signal 4k2m9x paid", "signal 4k2m9x paid '{\"amount\": 12}'"),
    "set": ("set 4k2m9x --max-iterations 20", "set 4k2m9x --priority high"),
    "pause": ("pause 4k2m9x", "pause 4k2m9x --json"),
    "resume": ("resume 4k2m9x", "resume 4k2m9x --json"),
    "agents": ("agents", "agents show assistant", "agents promote assistant 3 --as canary --share 10%"),
    "workflows": ("workflows", "workflows orders --graph", "workflows --check"),
    "tools": ("tools --agent assistant", 'tools call calculator \'{"expression": "17 * 23"}\''),
    "mcp": ("mcp servers", "mcp tools shop", 'mcp call shop stock_of \'{"article": "A-1001"}\''),
    "capability": ("capability list", "capability new count_words", "capability check count_words"),
    "webhooks": ("webhooks", "webhooks -o name"),
    "policy": ("policy check", "policy test 4k2m9x"),
    "crashtest": ('crashtest assistant "What is 17 * 23?"', 'crashtest assistant "Hello" --model demo/instant --yes'),
    "doctor": ("doctor", "doctor --probe", "doctor --url https://callboard.example"),
    "workers": ("workers", "workers -o json"),
    "worker": ("worker", "worker -n 2 --slots 20 --queues mail,slow"),
    "web": ("web", "web --host 0.0.0.0 --port 9000"),
    "observe": ("observe webhooks", "observe audit_trail --from beginning"),
    "observers": ("observers", "observers letters webhooks", "observers feed webhooks --all"),
    "discord": ("discord", "discord --config config/channels.yaml"),
    "slack": ("slack", "slack --config config/channels.yaml"),
    "email": ("email", "email --config config/channels.yaml"),
    "migrate": ("migrate", "migrate --state-dir /var/lib/callboard"),
    "backup": ("backup callboard.db", "backup callboard.db --force"),
    "completion": (
        'eval "$(./callboard completion bash)"',
        "completion zsh > ~/.zfunc/_callboard",
        "completion fish > ~/.config/fish/completions/callboard.fish",
    ),
    "keys": ("keys create reports --role viewer --expires 30d", "keys list", "keys revoke 7f3k2q"),
    "principals": ("principals list", "principals disable reports"),
    "grant": (
        'grant assistant --reason "Move the archive"',
        'grant assistant --reason "Repair" --for anna --minutes 10',
    ),
    "grants": ("grants list", "grants revoke 7f3k2q"),
    "audit": ("audit --limit 50", "audit verify", "audit export > audit.jsonl"),
    "check": ("check", "check --fix", "check --changed"),
    "test": ("test --only journeys -- -k cancel", "test --retry --beside"),
    "bench": ("bench --quick", "bench --only hostile_text"),
    "soak": ("soak --sweep", "soak --postgres --workers 3"),
    "docs": ("docs", "docs --serve 8001"),
    "lock": ("lock", "lock --upgrade"),
}
"""What the end of a command's help shows; a line that does not begin with a command stands as it is."""
