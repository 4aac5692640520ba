//! Compares the memory of each structure, counted by the allocator, with the table in `docs/scale.md`: within 10 %.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, missing_docs, reason = "a test")]

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use portcullis_cli::bench::memory::allocated;
use portcullis_cli::bench::synthetic::Synthetic;
use portcullis_policy::chain::Mode;
use portcullis_policy::engine::{Builder, Engine, EngineConfig};
use portcullis_store::{Embedded, Expect, Options, Store as _, Value, Write};
use tokio::runtime::Runtime;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The table of structures in the page.
const HEADING: &str = "| Structure | Bytes |";

/// The rows of the table: the bytes of each structure.
fn written() -> BTreeMap<String, f64> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scale.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows = page.lines().skip_while(|line| *line != HEADING).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, name, bytes, _] = cells[..] else { panic!("a row has two cells: {row}") };
        (name.to_owned(), bytes.replace(',', "").parse().unwrap())
    })
    .collect()
}

/// Makes a value. Returns it, and how many bytes it takes.
fn measured<T>(make: impl FnOnce() -> T) -> (T, f64) {
    let before = allocated();
    let made = make();
    let bytes = allocated() - before;
    (made, u32::try_from(bytes).unwrap().into())
}

fn engine(mode: Mode, synthetic: Synthetic) -> Engine {
    let mut builder = Builder::new(EngineConfig { modes: vec![mode], ..EngineConfig::default() }).unwrap();
    synthetic.each_object(|object| builder.take(object).unwrap());
    builder.finish()
}

fn write(number: u32) -> Write {
    let value = Value { bytes: Bytes::from(vec![b'x'; 500]), revision_at: None, relies_on: None };
    let key = format!("/core/pods/namespace-{:03}/pod-{number:06}", number % 300);
    Write { key: key.into(), expect: Expect::Anything, value: Some(value) }
}

/// Writes this many objects, in commits of a thousand.
async fn fill(store: &Embedded, count: u32) {
    for from in (0..count).step_by(1000) {
        store.commit((from..from + 1000).map(write).collect()).await.unwrap();
    }
}

#[test]
fn each_structure_takes_what_the_page_says() {
    let mut found = BTreeMap::new();
    let synthetic = |nodes, pods_per_node, bindings| Synthetic { nodes, pods_per_node, bindings };

    let (graph, bytes) = measured(|| engine(Mode::Node, synthetic(5000, 30, 0)));
    found.insert("graph, for each pod of 150,000 on 5,000 nodes", bytes / 150_000.0);
    drop(graph);
    let (few, by_few) = measured(|| engine(Mode::Node, synthetic(50, 1000, 0)));
    drop(few);
    let (many, by_many) = measured(|| engine(Mode::Node, synthetic(50_000, 1, 0)));
    drop(many);
    found.insert("graph, for each node, beside its pods", (by_many - by_few) / 49_950.0);
    let (rules, bytes) = measured(|| engine(Mode::Rbac, synthetic(0, 0, 20_000)));
    found.insert("RBAC, for each ClusterRoleBinding with a user and a role of its own", bytes / 20_000.0);
    drop(rules);

    let runtime = Runtime::new().unwrap();
    let store = Options::memory().open().unwrap();
    let ((), bytes) = measured(|| runtime.block_on(fill(&store, 50_000)));
    found.insert("store, for each object of 500 bytes, with the event of its creation", bytes / 50_000.0);
    let ((), bytes) = measured(|| runtime.block_on(fill(&store, 50_000)));
    found.insert("store, for each past version of such an object", bytes / 50_000.0);
    let revision = store.revision();
    let watches = async || {
        let mut watches = Vec::new();
        for number in 0..10_000 {
            watches.push(store.watch(&format!("/core/pods/namespace-{number:06}/"), revision).await.unwrap());
        }
        watches
    };
    let (watches, bytes) = measured(|| runtime.block_on(watches()));
    found.insert("store, for each watch that waits", bytes / 10_000.0);
    drop(watches);

    for (name, bytes) in &found {
        println!("| {name} | {bytes:.0} |");
    }
    let written = written();
    let names: Vec<&str> = written.keys().map(String::as_str).collect();
    let expected: Vec<&str> = found.keys().copied().collect();
    assert_eq!(names, expected, "the rows of docs/scale.md");
    for (name, bytes) in found {
        let says = written[name];
        assert!(
            (bytes - says).abs() <= says / 10.0,
            "{name}: {bytes:.0} bytes, and docs/scale.md says {says}"
        );
    }
}
