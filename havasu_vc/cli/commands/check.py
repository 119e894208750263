"""`havasu-vc check`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from havasu_vc.cli.arguments import revisions_and_filters
from havasu_vc.cli.completing import complete_revisions
from havasu_vc.cli.errors import visible
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import RevisionCommand, engine_option, format_option
from havasu_vc.errors import SourceNotFoundError
from havasu_vc.model.names import POLICY_FILE
from havasu_vc.review import json_value, parse_policy

__all__ = ["command"]


@click.command("check", cls=RevisionCommand)
@click.argument(
    "arguments", metavar="[REV|RANGE] [FILTER...]", nargs=-1, shell_complete=complete_revisions
)
@click.option(
    "--policy",
    "file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Hold it against this file instead of the policy that is committed.",
)
@click.option(
    "--allow-broken", is_flag=True, help="Only warn of broken datasets, whatever changed."
)
@engine_option
@format_option("text", "json")
@click.pass_context
def command(
    context: click.Context,
    /,
    arguments: tuple[str, ...],
    file: Path | None,
    allow_broken: bool,
    output_format: str,
) -> int:
    """Hold what changed against the policy in .havasu/policy.toml.

    REV (HEAD if not given) is checked by its own policy against its first parent, a range by
    the policy of where it begins. The exit code is 1 if the policy refuses something, or if a
    dataset is broken, with or without a policy.
    """
    invocation: Invocation = context.obj
    repo = invocation.open_repo()
    revisions, filters = revisions_and_filters(context, repo, arguments, most=2)
    text = "..".join(revisions) or "HEAD"
    policy = None
    if file is not None:
        try:
            policy = parse_policy(file.read_bytes(), visible(str(file)))
        except OSError as error:
            raise SourceNotFoundError(f"{file} cannot be read: {error.strerror}") from error
    elif ".." not in text:
        policy = repo.policy(repo.resolve(text))
    whole = text if ".." in text else f"{text}^?..{text}"
    found = repo.review(whole, filters, samples=0, policy=policy)
    end = repo.resolve((revisions[-1] if revisions else "HEAD").rpartition("..")[2] or "HEAD")
    broken = repo.broken_findings(end, refuses=not allow_broken)
    said = {finding.dataset for finding in broken}
    others = [each for each in found.findings if each.dataset not in said]
    findings = (*broken, *others)
    refused = sum(finding.refuses for finding in findings)
    if output_format == "json":
        value = {"range": found.range, "refused": refused, "findings": json_value(findings)}
        click.echo(json.dumps({"havasu.check/v1": value}, indent=2))
    else:
        for finding in findings:
            level = "refused" if finding.refuses else "warning"
            rows = f" ({', '.join(finding.rows)})" if finding.rows else ""
            message = finding.message.replace("`", "")
            click.echo(visible(f"{level}: {finding.dataset}: {message}{rows}"))
        for note in found.notes:
            invocation.note(visible(note.replace("`", "")))
        if not findings:
            none = policy is None and repo.policy(repo.resolve("HEAD")) is None
            invocation.say(
                f"there is no {POLICY_FILE}" if none else "nothing is against the policy"
            )
    return 1 if refused else 0
