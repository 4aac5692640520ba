//! Faults of the API server that a webhook follows, and of the way to it (BC-21, BC-22).

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::program;
use portcullis_testkit::program::Running;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tcp_proxy::TcpProxy;
use portcullis_testkit::wait::until;
use portcullis_testkit::watch_proxy::{Held, WatchProxy};
use serde_json::{Value, json};

use crate::webhook::following::{Cluster, PODS, asks_for_secret, is_allowed, pod, ready_for_pods};
use crate::webhook::support::{Stop, Webhook, ask};

/// Where all pods are listed.
const ALL_PODS: &str = "/api/v1/pods";

/// Whether node n1 may read this secret.
fn may_read(client: &mut Client, secret: &str) -> bool {
    is_allowed(&ask(client, "/authorize", &asks_for_secret("n1", secret)))
}

/// A metric of pods.
fn number(webhook: &Webhook, name: &str) -> f64 {
    let line = webhook.metric(&format!("portcullis_webhook_{name}{{resource=\"pods\"}}"));
    line.rsplit_once(' ').unwrap_or_else(|| panic!("{name}: {line}")).1.parse().unwrap()
}

#[test]
fn what_was_deleted_while_the_api_server_was_gone_is_not_allowed_again_bc_22() {
    const LATER: usize = 200;
    let scratch = Scratch::new();
    let cluster = Cluster::start(&scratch);
    let mut admin = cluster.admin();
    ready_for_pods(&mut admin);
    for name in ["deleted", "kept"] {
        admin.must(201, "POST", PODS, Some(&pod(name, "n1", name)));
    }
    let proxy = TcpProxy::start(cluster.served.address());
    let kubeconfig = cluster.kubeconfig_by(&scratch, proxy.address());
    let flags = ["--max-staleness", "3s", "--wait-for-graph", "0"];
    let webhook = Webhook::following(&scratch, &kubeconfig, &flags);
    let mut client = webhook.client();
    assert!(may_read(&mut client, "deleted") && may_read(&mut client, "kept"));

    // The webhook sees nothing of these changes before the server is gone. The deletion is the last one.
    proxy.cut();
    proxy.reset();
    for number in 0..LATER {
        let name = format!("later{number}");
        admin.must(201, "POST", PODS, Some(&pod(&name, "n1", &name)));
    }
    admin.must(200, "DELETE", &format!("{PODS}/deleted?gracePeriodSeconds=0"), None);
    let Cluster { served, data } = cluster;
    let port = served.address().port();
    served.kill();
    until("the pods are not known any more", || {
        let answer = client.ask("GET", "/readyz", None).unwrap();
        answer.code == 503 && answer.text().contains("nothing was heard of Pod for")
    });
    for secret in ["deleted", "kept"] {
        let answer = ask(&mut client, "/authorize", &asks_for_secret("n1", secret));
        assert!(!is_allowed(&answer), "{answer}");
        assert!(answer["status"]["evaluationError"].as_str().unwrap().contains("Pod"), "{answer}");
    }

    let _served = Running::start(program!().serve_command_at(&data, port));
    proxy.heal();
    until("the webhook knows the cluster again", || {
        assert!(!may_read(&mut client, "deleted"));
        may_read(&mut client, "kept")
    });
    assert!(!may_read(&mut client, "deleted"));
    until("the last pod has arrived", || {
        assert!(!may_read(&mut client, "deleted"));
        may_read(&mut client, &format!("later{}", LATER - 1))
    });
    webhook.until_ready();
}

#[test]
fn a_watch_that_is_silent_is_noticed_and_everything_listed_again_bc_21() {
    let scratch = Scratch::new();
    let cluster = Cluster::start(&scratch);
    let mut admin = cluster.admin();
    ready_for_pods(&mut admin);
    admin.must(201, "POST", PODS, Some(&pod("old", "n1", "old")));
    let proxy = WatchProxy::start(scratch.path(), cluster.served.address(), &Identity::admin(&cluster.data));
    let flags = ["--max-staleness", "6s", "--wait-for-graph", "0"];
    let webhook = Webhook::following(&scratch, &proxy.kubeconfig(), &flags);
    let mut client = webhook.client();
    assert!(may_read(&mut client, "old"));
    let age = || number(&webhook, "graph_age_seconds");
    let lists = proxy.lists(ALL_PODS);
    assert_eq!(lists, 1, "pods were listed once");

    proxy.hold(Held::Watches);
    admin.must(200, "DELETE", &format!("{PODS}/old?gracePeriodSeconds=0"), None);
    admin.must(201, "POST", PODS, Some(&pod("new", "n1", "new")));
    until("the age is shown", || age() > 1.0);
    until("the deleted pod is gone", || !may_read(&mut client, "old"));
    // It may have been unknown in between. What is deleted is not known again.
    until("the new pod has arrived", || {
        assert!(!may_read(&mut client, "old"));
        may_read(&mut client, "new")
    });
    assert!(proxy.lists(ALL_PODS) > lists, "pods were listed again");
    until("the webhook is ready", || client.ask("GET", "/readyz", None).unwrap().code == 200);

    // Without lists, it says what is missing.
    proxy.hold(Held::Everything);
    until("the webhook is not ready", || {
        let answer = client.ask("GET", "/readyz", None).unwrap();
        answer.code == 503 && answer.text().contains("nothing was heard of Pod for")
    });
    assert!(age() > 6.0);
    assert!(!may_read(&mut client, "new"));
    proxy.hold(Held::Nothing);
    until("the webhook knows the cluster again", || may_read(&mut client, "new"));
    webhook.until_ready();
    assert!(age() < 6.0);
}

/// The pods of a cluster as a state file: `pod-I` on node `node-(I mod NODES)` with secret `secret-I`.
fn state(scratch: &Scratch, pods: usize) -> std::path::PathBuf {
    let pod = |number: usize| {
        let (name, node) = (format!("pod-{number}"), format!("node-{}", number % NODES));
        pod(&name, &node, &format!("secret-{number}"))
    };
    let items: Vec<Value> = (0..pods).map(pod).collect();
    scratch.write("pods.json", json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string())
}

const NODES: usize = 100;

#[test]
fn no_review_fails_while_twenty_thousand_pods_are_listed_again_bc_21() {
    const COUNT: usize = 20_000;
    const RELISTS: usize = 3;
    let scratch = Scratch::new();
    let data = scratch.path().join("data");
    let mut command = program!().serve_command(&data);
    command.arg("--state").arg(state(&scratch, COUNT));
    let served = Running::start(command);
    let mut admin = Client::new(served.address(), &Identity::admin(&data));
    let proxy = WatchProxy::start(scratch.path(), served.address(), &Identity::admin(&data));
    let webhook = Webhook::following(&scratch, &proxy.kubeconfig(), &["--wait-for-graph", "0"]);
    assert_eq!(number(&webhook, "objects"), 20_000.0);

    let (is_done, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for thread in 0..2 {
            let (is_done, asked, webhook) = (&is_done, &asked, &webhook);
            scope.spawn(move || {
                let mut client = webhook.client();
                // Pods all over the cluster, but not those that are deleted below.
                let mut number = RELISTS + thread;
                while !is_done.load(Ordering::Relaxed) {
                    number = (number + 7_919) % COUNT;
                    if number < RELISTS {
                        continue;
                    }
                    let secret = format!("secret-{number}");
                    for (node, expected) in [(number % NODES, true), ((number + 1) % NODES, false)] {
                        let review = asks_for_secret(&format!("node-{node}"), &secret);
                        let answer = ask(&mut client, "/authorize", &review);
                        assert_eq!(is_allowed(&answer), expected, "{review} {answer}");
                        asked.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        let _stop = Stop(&is_done);
        let mut client = webhook.client();
        for round in 0..RELISTS {
            let before = asked.load(Ordering::Relaxed);
            // What is deleted at the same time is gone after the list.
            proxy.hold(Held::Watches);
            admin.must(200, "DELETE", &format!("{PODS}/pod-{round}?gracePeriodSeconds=0"), None);
            proxy.expire();
            proxy.hold(Held::Nothing);
            until("the deleted pod is gone", || {
                let review = asks_for_secret(&format!("node-{round}"), &format!("secret-{round}"));
                !is_allowed(&ask(&mut client, "/authorize", &review))
            });
            assert_eq!(proxy.lists(ALL_PODS), 2 + round, "pods are listed again");
            assert!(asked.load(Ordering::Relaxed) > before, "reviews were answered meanwhile");
        }
    });
    until("the pods are those that are left", || number(&webhook, "objects") == 19_997.0);
    assert!(asked.into_inner() > 1_000);
}
