"""Remove everything that `deploy` made on Vertex AI: endpoints and models, found by their label, leftovers too."""

import argparse

from whichdevice.commands.deploy import add_place


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("model", nargs="?", help="only deployments of this model (default: all)")
    add_place(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask")


def run(args: argparse.Namespace) -> int:
    """List, ask, remove."""
    from whichdevice.cloud.consent import agree
    from whichdevice.deploying.deployment import made, remove
    from whichdevice.deploying.vertex_api import VertexApi, project_of

    api = VertexApi(project_of(args.project), args.region)
    found = [one for one in made(api) if args.model in (None, one.display_name)]
    if not found:
        print(f"Nothing that deploy made is in {api.region}, project {api.project}.")
        return 0
    for one in found:
        state = f", serves {len(one.deployed)} model(s) and costs money" if one.deployed else ""
        print(f"{'/'.join(one.path.split('/')[-2:])}: {one.display_name}{state}")
    agree(f"Remove {'it' if len(found) == 1 else f'all {len(found)}'}?", args.yes)
    for deployment in dict.fromkeys(one.deployment for one in found):
        remove(api, lambda line: print(line, flush=True), deployment)
    print("Nothing is left of it.")
    return 0
