#!/usr/bin/python3
"""A controller of a custom kind, written with the Python client in the usual style: it installs its definition, takes the
lock of the leader, and makes a ConfigMap of each Book. Run several; one works.

usage: books.py IDENTITY NAMESPACE
"""

import json
import sys
import time

from kubernetes import client, config, watch
from kubernetes.client.rest import ApiException
from kubernetes.dynamic import DynamicClient
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.configmaplock import ConfigMapLock

GROUP, VERSION, PLURAL = "example.com", "v1", "books"
MANAGER = "book-controller"
FINALIZER = "books.example.com/archive"
APPLY = "application/apply-patch+yaml"


def definition():
    text = client.V1JSONSchemaProps(type="string")
    props = {
        "spec": client.V1JSONSchemaProps(
            type="object", required=["title"], properties={"title": text, "author": text}
        ),
        "status": client.V1JSONSchemaProps(type="object", properties={"phase": text, "shelvedBy": text}),
    }
    schema = client.V1JSONSchemaProps(type="object", properties=props)
    version = client.V1CustomResourceDefinitionVersion(
        name=VERSION,
        served=True,
        storage=True,
        schema=client.V1CustomResourceValidation(open_apiv3_schema=schema),
        subresources=client.V1CustomResourceSubresources(status={}),
    )
    names = client.V1CustomResourceDefinitionNames(
        kind="Book", list_kind="BookList", plural=PLURAL, singular="book"
    )
    spec = client.V1CustomResourceDefinitionSpec(
        group=GROUP, names=names, scope="Namespaced", versions=[version]
    )
    metadata = client.V1ObjectMeta(name=f"{PLURAL}.{GROUP}")
    return client.V1CustomResourceDefinition(
        api_version="apiextensions.k8s.io/v1", kind="CustomResourceDefinition", metadata=metadata, spec=spec
    )


def install():
    api = client.ApiextensionsV1Api()
    wanted = definition()
    try:
        api.create_custom_resource_definition(wanted)
    except ApiException as error:
        if error.status != 409:
            raise
    while True:
        conditions = api.read_custom_resource_definition(wanted.metadata.name).status.conditions or []
        if any(c.type == "Established" and c.status == "True" for c in conditions):
            return
        time.sleep(0.1)


class Shelf:
    """Brings Books to the state that they ask for."""

    def __init__(self, identity):
        self.identity = identity
        dynamic = DynamicClient(client.ApiClient())
        self.books = dynamic.resources.get(api_version=f"{GROUP}/{VERSION}", kind="Book")
        self.config_maps = dynamic.resources.get(api_version="v1", kind="ConfigMap")

    def apply(self, resource, body, namespace):
        name = body["metadata"]["name"]
        # The client encodes bodies of JSON alone; JSON is YAML as well.
        body = json.dumps(body)
        resource.patch(
            body=body, name=name, namespace=namespace, content_type=APPLY, field_manager=MANAGER, force=True
        )

    def config_map(self, name, namespace, data, owners):
        metadata = {"name": name, "ownerReferences": owners}
        self.apply(
            self.config_maps,
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data},
            namespace,
        )

    def set_finalizers(self, book, finalizers):
        metadata = book["metadata"]
        self.books.patch(
            body={"metadata": {"finalizers": finalizers, "resourceVersion": metadata["resourceVersion"]}},
            name=metadata["name"],
            namespace=metadata["namespace"],
            content_type="application/merge-patch+json",
        )

    def reconcile(self, book):
        metadata, spec = book["metadata"], book["spec"]
        name, namespace = metadata["name"], metadata["namespace"]
        finalizers = metadata.get("finalizers", [])
        if "deletionTimestamp" in metadata:
            if FINALIZER in finalizers:
                self.config_map(f"{name}-archive", namespace, {"title": spec["title"]}, [])
                self.set_finalizers(book, [other for other in finalizers if other != FINALIZER])
            return
        if FINALIZER not in finalizers:
            self.set_finalizers(book, finalizers + [FINALIZER])
            return
        owner = {
            "apiVersion": book["apiVersion"],
            "kind": book["kind"],
            "name": name,
            "uid": metadata["uid"],
            "controller": True,
        }
        self.config_map(f"{name}-card", namespace, {"title": spec["title"]}, [owner])
        if book.get("status", {}).get("phase") != "Shelved":
            status = {"phase": "Shelved", "shelvedBy": self.identity}
            body = {"apiVersion": book["apiVersion"], "kind": "Book", "metadata": {"name": name}, "status": status}
            self.apply(self.books.status, body, namespace)

    def run(self):
        print(f"{self.identity}: leader", flush=True)
        api = client.CustomObjectsApi()
        while True:
            events = watch.Watch().stream(
                api.list_cluster_custom_object, GROUP, VERSION, PLURAL, timeout_seconds=60
            )
            for event in events:
                if event["type"] not in ("ADDED", "MODIFIED"):
                    continue
                try:
                    self.reconcile(event["object"])
                except ApiException as error:
                    # The object has changed or is gone: another event tells of it.
                    if error.status not in (404, 409):
                        raise


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    identity, namespace = sys.argv[1:]
    config.load_kube_config()
    install()
    print(f"{identity}: installed", flush=True)
    shelf = Shelf(identity)
    lock = ConfigMapLock(MANAGER, namespace, identity)
    election = electionconfig.Config(
        lock,
        lease_duration=4,
        renew_deadline=3,
        retry_period=1,
        onstarted_leading=shelf.run,
        onstopped_leading=lambda: sys.exit("the lock was lost"),
    )
    leaderelection.LeaderElection(election).run()


if __name__ == "__main__":
    main()
