//! `bench`: the last line has the documented fields. No test checks the speed.

use portcullis_testkit::scratch::Scratch;
use serde_json::Value;

use crate::command::support::{Finished, portcullis, text, words};

/// Large enough for `graph_bytes`: the memory of a small index can come from what the process has freed before.
const SYNTHETIC: &str = "bench --synthetic nodes=200,pods-per-node=20,bindings=50 --seconds 1 --threads 1";

/// The object on the last line, with exactly the promised fields and values that can be.
#[track_caller]
fn summary(run: &Finished) -> Value {
    assert_eq!(run.code, 0, "{}", run.stderr);
    let summary: Value =
        serde_json::from_str(run.last_line()).unwrap_or_else(|e| panic!("{e}: {}", run.stdout));
    let mut fields: Vec<&str> = summary.as_object().unwrap().keys().map(String::as_str).collect();
    fields.sort_unstable();
    let promised = [
        "decisions_per_second",
        "graph_bytes",
        "load_seconds",
        "max_ns",
        "objects",
        "p50_ns",
        "p99_ns",
        "rss_bytes",
    ];
    assert_eq!(fields, promised);
    let number = |field: &str| summary[field].as_f64().unwrap();
    for field in promised {
        assert!(number(field) > 0.0, "{field}: {summary}");
    }
    assert!(number("p50_ns") <= number("p99_ns") && number("p99_ns") <= number("max_ns"), "{summary}");
    assert!(number("graph_bytes") < number("rss_bytes"), "{summary}");
    summary
}

#[test]
fn a_made_up_cluster_is_measured() {
    // 4,000 pods, each with a volume; 50 bindings, each with a role.
    assert_eq!(summary(&portcullis(words(SYNTHETIC)))["objects"], 8_100);
}

#[test]
fn a_made_up_cluster_can_be_written_and_measured_from_its_files() {
    let scratch = Scratch::new();
    let folder = text(scratch.path());
    let made = portcullis([words(SYNTHETIC), vec!["--write-state", folder]].concat());
    let objects = summary(&made)["objects"].clone();

    let reviews = format!("{folder}/reviews.jsonl");
    let flags = ["bench", "--state", folder, "--reviews", &reviews, "--seconds", "1", "--threads", "1"];
    let read = portcullis(flags);
    assert_eq!(summary(&read)["objects"], objects);

    // Half of the requests are for what another node's pod has, or for another API group. What two pods of a
    // namespace share makes a few more of them allowed.
    let answers = portcullis(["review", "--state", folder, "--reviews", &reviews]).json_lines();
    let allowed = answers.iter().filter(|a| a["status"]["allowed"] == true).count();
    let share = allowed as f64 / answers.len() as f64;
    assert!((0.45..0.6).contains(&share), "{allowed} of {}", answers.len());
    for node in [true, false] {
        let of_mode = |a: &&Value| a["spec"]["user"].as_str().unwrap().starts_with("system:node:") == node;
        assert_eq!(answers.iter().filter(of_mode).count() * 2, answers.len());
    }
}

#[test]
fn the_index_is_measured_while_pods_come_and_go() {
    let run =
        portcullis([words(SYNTHETIC), words("--updates-per-second 1000 --authorization-mode Node")].concat());
    summary(&run);
    assert!(run.stdout.contains(" updates, "), "{}", run.stdout);
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let scratch = Scratch::new();
    let empty = scratch.write("empty.jsonl", "\n");
    let admission = scratch.write(
        "admission.jsonl",
        "\n{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\"}\n",
    );
    let review = scratch.write(
        "review.jsonl",
        r#"{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{"user":"a","nonResourceAttributes":{"path":"/","verb":"get"}}}"#,
    );
    portcullis(["bench"]).refused(&["--reviews"]);
    portcullis(["bench", "--reviews", text(&empty)]).refused(&["nothing to ask"]);
    portcullis(["bench", "--reviews", text(&admission)]).refused(&["admission.jsonl:2: kind: "]);
    portcullis(["bench", "--reviews", text(&review), "--updates-per-second", "1"])
        .refused(&["--updates-per-second"]);
    portcullis(["bench", "--reviews", text(&review), "--write-state", "x"]).refused(&["--write-state"]);
    portcullis(["bench", "--synthetic", "nodes=1,pods-per-node=1", "--reviews", text(&review)])
        .refused(&["--reviews"]);
    portcullis(["bench", "--synthetic", "pods=5"]).refused(&["pods", "pods-per-node"]);
    portcullis(["bench", "--synthetic", "nodes=1,pods-per-node=1", "--threads", "0"]).refused(&["--threads"]);
    let in_the_way = format!("{}/empty.jsonl/below", text(scratch.path()));
    portcullis(["bench", "--synthetic", "nodes=1,pods-per-node=1", "--write-state", &in_the_way])
        .refused(&["cannot make", "below"]);
}

#[test]
fn a_simulation_tells_what_smaller_sizes_predict_and_leaves_nothing() {
    let scratch = Scratch::new();
    let folder = text(scratch.path());
    let run = portcullis(
        [words("bench simulate --nodes 400 --pods-per-node 5 --at-once 20 --data-dir"), vec![folder]]
            .concat(),
    );
    assert_eq!(run.code, 0, "{}", run.stderr);
    let summary: Value = serde_json::from_str(run.last_line()).unwrap();
    assert_eq!([&summary["nodes"], &summary["podsPerNode"]], [400, 5], "{summary}");
    let figures = summary["figures"].as_array().unwrap();
    assert_eq!(figures.len(), 7, "{summary}");
    for figure in figures {
        assert!(figure["measured"].as_f64().unwrap() > 0.0, "{figure}");
        let line = run.stdout.lines().find(|line| line.starts_with(figure["part"].as_str().unwrap()));
        assert!(line.is_some_and(|line| line.ends_with(" %")), "{figure}: {}", run.stdout);
    }
    // 1,200 watches, and 2,000 pods of 500 bytes. The table of docs/scale.md has what each of them takes at a larger size.
    let bytes = |part: &str| {
        let figure =
            figures.iter().find(|figure| figure["part"].as_str().unwrap().starts_with(part)).unwrap();
        assert_eq!(figure["unit"], "bytes");
        figure["measured"].as_f64().unwrap()
    };
    assert!((1_200.0 * 300.0..1_200.0 * 1_200.0).contains(&bytes("three watches")), "{summary}");
    assert!((2_000.0 * 550.0..2_000.0 * 1_500.0).contains(&bytes("store of pods")), "{summary}");
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0, "the file with the leases is gone");
}

#[test]
fn a_simulation_that_cannot_run_is_refused() {
    let scratch = Scratch::new();
    let file = scratch.write("file", "");
    portcullis(["bench", "simulate", "--nodes", "80", "--data-dir", text(&file)])
        .refused(&["cannot make", "file"]);
    portcullis(["bench", "simulate", "--nodes", "1"]).refused(&["--nodes"]);
    portcullis(["bench", "--synthetic", "nodes=1,pods-per-node=1", "simulate"]).refused(&["simulate"]);
}
