"""The words of the program `helm` that the tests and pages type, done by Helm's own library.

Rendering, checks of values, releases and what is sent to the server are Helm's; only flags and messages are written here.
"""

import argparse
import os
import sys

import helm_python as helm


def merge(base, over):
    """Maps are merged, and anything else is replaced."""
    for key, value in over.items():
        if isinstance(value, dict) and isinstance(base.get(key), dict):
            merge(base[key], value)
        else:
            base[key] = value
    return base


def parse():
    parser = argparse.ArgumentParser(prog="helm")
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ["template", "install", "upgrade", "uninstall", "lint"]:
        command = commands.add_parser(name)
        if name != "lint":
            command.add_argument("release")
        if name != "uninstall":
            command.add_argument("chart")
            command.add_argument("-f", "--values", action="append", default=[])
            command.add_argument("--set", action="append", default=[])
        if name == "upgrade":
            command.add_argument("--reuse-values", action="store_true")
        if name == "install":
            command.add_argument("--create-namespace", action="store_true")
        command.add_argument("-n", "--namespace", default="default")
    return parser.parse_args()


def values_of(flags):
    values = {}
    for path in flags.values:
        with open(path, encoding="utf-8") as file:
            merge(values, helm.values_from_yaml(file.read()))
    for words in flags.set:
        merge(values, helm.parse_set_string(words))
    return values


def notes(flags, values):
    with helm.Chart.load(flags.chart) as chart:
        texts = chart.render(values, name=flags.release, namespace=flags.namespace)
    return "".join(text for path, text in texts.items() if path.endswith("NOTES.txt"))


def run(flags):
    values = values_of(flags) if flags.command != "uninstall" else None
    if flags.command == "template":
        with helm.Config(namespace=flags.namespace, storage_driver="memory") as nowhere:
            done = nowhere.install(flags.chart, flags.release, values, dry_run="client")
            print(done["manifest"], end="")
        return
    if flags.command == "lint":
        found = helm.lint(flags.chart, values, strict=True)["messages"]
        # Informations are of severity 1.
        worse = [message for message in found if message["severity"] > 1]
        for message in worse:
            print(f"{message['path']}: {message['error']}")
        sys.exit(1 if worse else 0)
    with helm.Config(namespace=flags.namespace, kubeconfig_path=os.environ["KUBECONFIG"]) as cluster:
        if flags.command == "uninstall":
            cluster.uninstall(flags.release)
            print(f'release "{flags.release}" uninstalled')
            return
        if flags.command == "install":
            done = cluster.install(
                flags.chart, flags.release, values, create_namespace=flags.create_namespace
            )
        else:
            done = cluster.upgrade(flags.chart, flags.release, values, reuse_values=flags.reuse_values)
            print(f'Release "{flags.release}" has been upgraded. Happy Helming!')
        print(f"NAME: {done['name']}\nNAMESPACE: {done['namespace']}\nSTATUS: {done['status']}")
        print(f"REVISION: {done['revision']}")
        if flags.command == "install":
            print(f"NOTES:\n{notes(flags, values)}")


try:
    run(parse())
except helm.HelmError as error:
    sys.exit(f"Error: {error}")
