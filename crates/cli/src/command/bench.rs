//! `portcullis bench`: measures the speed of decisions and the memory of the index, and simulates large clusters.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use portcullis_policy::chain::Mode;
use portcullis_policy::engine::{Builder, Engine};
use portcullis_server::state;

use crate::bench::memory;
use crate::bench::questions::Questions;
use crate::bench::run::{Plan, measure};
use crate::bench::simulate;
use crate::bench::synthetic::{Requests, Synthetic};
use crate::bench::writer::Updates;
use crate::engine_flags::{EngineFlags, runtime, threads};
use crate::failure::Failure;
use crate::lines::Lines;
use crate::table;

/// The number of requests for a synthetic cluster.
const SYNTHETIC_REQUESTS: u32 = 400_000;

/// The number of requests for each mode that are written to a file: enough to outgrow caches, few enough to read at
/// once.
const WRITTEN_REQUESTS: u32 = 50_000;

const EXAMPLES: &str = "\
Examples:
  portcullis bench --synthetic nodes=5000,pods-per-node=30,bindings=10000
  portcullis bench --synthetic nodes=100,pods-per-node=30 --write-state made-up --seconds 1
  portcullis bench --state made-up --reviews made-up/reviews.jsonl --updates-per-second 1000
  portcullis bench simulate --nodes 20000";

/// Measure decisions over a snapshot of a cluster, or over a synthetic one
///
/// Repeats the same requests on several threads, and prints one JSON object on its last line: `objects` loaded in
/// `load_seconds`, `decisions_per_second` of all threads together, the time of single decisions in nanoseconds
/// (`p50_ns`, `p99_ns`, `max_ns`: every eighth is timed, minus the cost of reading the clock), the memory of the
/// process (`rss_bytes`) and what is allocated for the index (`graph_bytes`, which is exact only for indexes of
/// some megabytes).
///
/// Exit codes: 0 success; 2 bad flags or input; 3 the output cannot be written.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct BenchArgs {
    #[command(subcommand)]
    what: Option<What>,

    /// The SubjectAccessReviews to repeat, one JSON object per line
    #[arg(long, value_name = "FILE", required_unless_present = "synthetic")]
    reviews: Option<PathBuf>,

    /// Use a synthetic cluster and requests instead: nodes=N,pods-per-node=P,bindings=B
    #[arg(long, value_name = "SIZES", conflicts_with_all = ["state", "reviews"])]
    synthetic: Option<Synthetic>,

    /// Also write the synthetic cluster to this directory, as state.json, and requests for it, as reviews.jsonl
    #[arg(long, value_name = "DIR", requires = "synthetic", conflicts_with_all = ["state", "reviews"])]
    write_state: Option<PathBuf>,

    /// The number of deciding threads
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,

    /// The duration of the measurement
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,

    /// Delete and add a pod this many times per second during the measurement
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=10_000_000))]
    updates_per_second: u32,

    #[command(flatten)]
    engine: EngineFlags,
}

#[derive(Debug, Subcommand)]
enum What {
    Simulate(SimulateArgs),
}

const SIMULATE_EXAMPLES: &str = "\
Examples:
  portcullis bench simulate --nodes 5000
  portcullis bench simulate --nodes 100000 --data-dir /var/tmp";

/// Run the parts of a large cluster that fit on this machine, and compare them with what smaller sizes predict
///
/// Each part runs at an eighth, a quarter and half of the size. A line through these predicts the whole size, which is run as
/// well: the index and its memory, all pods in memory and every node listing its own, the watches of all kubelets, and one
/// round of lease renewals, each durable, into a file. There is no network, TLS or HTTP in it.
///
/// Prints a table, and on the last line one JSON object with the same figures. DIFFERENCE is how much more was measured than
/// predicted.
///
/// Exit codes: 0 success; 2 bad flags, or too little memory; 3 the store or the output cannot be written.
#[derive(Args, Debug)]
#[command(after_help = SIMULATE_EXAMPLES)]
struct SimulateArgs {
    /// The number of nodes
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(80..=1_000_000))]
    nodes: u32,

    /// The number of pods on each node
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=250))]
    pods_per_node: u32,

    /// The number of nodes that are served at a time
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    at_once: u16,

    /// Where the file with the leases is made, and removed again: on the disk that is to be measured. The default is the
    /// directory for temporary files
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// Flags, objects or reviews are invalid, or a simulation does not fit on this machine.
pub fn run(args: &BenchArgs) -> Result<ExitCode, Failure> {
    match &args.what {
        Some(What::Simulate(args)) => run_simulation(args),
        None => run_decisions(args),
    }
}

fn run_simulation(args: &SimulateArgs) -> Result<ExitCode, Failure> {
    let plan = simulate::Plan {
        nodes: args.nodes,
        pods_per_node: args.pods_per_node,
        at_once: args.at_once,
        directory: args.data_dir.clone().unwrap_or_else(std::env::temp_dir),
    };
    let figures = simulate::run(&plan, runtime()?)?;
    let mut rows = vec![["PART", "PREDICTED", "MEASURED", "DIFFERENCE"].map(str::to_owned).to_vec()];
    let mut summary = Vec::new();
    for figure in &figures {
        rows.push(vec![
            figure.what.to_owned(),
            figure.unit.text(figure.predicted),
            figure.unit.text(figure.measured),
            format!("{:+.1} %", figure.error() * 100.0),
        ]);
        summary.push(serde_json::json!({
            "part": figure.what,
            "unit": figure.unit.name(),
            "predicted": figure.predicted,
            "measured": figure.measured,
        }));
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "{} nodes with {} pods each, on {} processors", args.nodes, args.pods_per_node, threads())?;
    writeln!(out)?;
    table::columns(&mut out, &rows)?;
    writeln!(out)?;
    let summary =
        serde_json::json!({"nodes": args.nodes, "podsPerNode": args.pods_per_node, "figures": summary});
    writeln!(out, "{summary}")?;
    Ok(ExitCode::SUCCESS)
}

fn run_decisions(args: &BenchArgs) -> Result<ExitCode, Failure> {
    let config = args.engine.config()?;
    let modes = config.modes.clone();
    if let (Some(synthetic), Some(directory)) = (args.synthetic, &args.write_state) {
        write_state(synthetic, &modes, directory)?;
    }
    let mut builder = Builder::new(config).map_err(Failure::input)?;
    let before = memory::allocated();
    let started = Instant::now();
    let mut objects = 0_u64;
    let updates = match args.synthetic {
        Some(synthetic) => {
            eprintln!(
                "making {} pods on {} nodes and {} bindings",
                synthetic.pods(),
                synthetic.nodes,
                synthetic.bindings
            );
            let mut fault = None;
            synthetic.each_object(|object| {
                objects += 1;
                if let Err(error) = builder.take(object) {
                    fault = Some(error);
                }
            });
            if let Some(error) = fault {
                return Err(Failure::input(error));
            }
            Updates::Synthetic(synthetic)
        }
        None => {
            let mut kept = Updates::kept();
            let summary = state::load(&args.engine.state, threads(), &mut |object| {
                kept.keep(&object);
                builder.take(object).map_err(|error| error.to_string())
            })
            .map_err(Failure::input)?;
            objects += summary.object_count() + summary.ignored_count();
            kept
        }
    };
    let engine = builder.finish();
    let load = started.elapsed();
    let graph_bytes = memory::allocated().saturating_sub(before).saturating_sub(updates.bytes());
    let questions = questions(args, &modes)?;
    if questions.is_empty() {
        return Err(Failure::input(
            "there is nothing to ask: the reviews are empty, or --synthetic has no such objects",
        ));
    }
    if args.updates_per_second > 0 && updates.is_empty() {
        return Err(Failure::input(
            "--updates-per-second: the state has no pod bound to a node to take out and in",
        ));
    }
    report(args, &engine, &questions, &updates, objects, load, graph_bytes)
}

fn questions(args: &BenchArgs, modes: &[Mode]) -> Result<Questions, Failure> {
    let Some(synthetic) = args.synthetic else {
        return Questions::read(&Lines::read(args.reviews.as_deref())?);
    };
    Ok(Questions::Synthetic(requests(synthetic, modes, SYNTHETIC_REQUESTS)))
}

/// Creates this many requests for each mode that decides on a synthetic cluster.
fn requests(synthetic: Synthetic, modes: &[Mode], count: u32) -> Requests {
    let mut requests = Requests::default();
    if modes.contains(&Mode::Node) {
        requests = synthetic.node_requests(count);
    }
    if modes.contains(&Mode::Rbac) {
        requests.append(synthetic.user_requests(count));
    }
    requests
}

fn report(
    args: &BenchArgs,
    engine: &Engine,
    questions: &Questions,
    updates: &Updates,
    objects: u64,
    load: Duration,
    graph_bytes: u64,
) -> Result<ExitCode, Failure> {
    let plan = Plan {
        threads: args.threads,
        time: Duration::from_secs(args.seconds),
        updates_per_second: args.updates_per_second,
    };
    let found = measure(engine, questions, updates, plan);
    let size = engine.graph().size();
    let share = found.allowed as f64 / found.decisions.max(1) as f64;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{objects} objects; graph of {} nodes and {} vertices", size.nodes, size.vertices)?;
    writeln!(
        out,
        "{} requests, {:.0} % allowed, on {} threads for {} s",
        questions.len(),
        share * 100.0,
        args.threads,
        args.seconds
    )?;
    if args.updates_per_second > 0 {
        writeln!(
            out,
            "{} updates, {:.0} a second; p50 {} ns, p99 {} ns",
            found.updates.total(),
            found.updates.total() as f64 / found.elapsed.as_secs_f64(),
            found.updates.quantile(0.5),
            found.updates.quantile(0.99)
        )?;
    }
    let summary = serde_json::json!({
        "objects": objects,
        "load_seconds": (load.as_secs_f64() * 1e6).round() / 1e6,
        "decisions_per_second": (found.decisions as f64 / found.elapsed.as_secs_f64()).round(),
        "p50_ns": found.latency.quantile(0.50),
        "p99_ns": found.latency.quantile(0.99),
        "max_ns": found.latency.max(),
        "rss_bytes": memory::resident(),
        "graph_bytes": graph_bytes,
    });
    writeln!(out, "{summary}")?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the synthetic cluster: the state, and requests for it.
fn write_state(synthetic: Synthetic, modes: &[Mode], directory: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(directory)
        .map_err(|error| Failure::input(format_args!("cannot make {}: {error}", directory.display())))?;
    write_file(&directory.join("state.json"), |out| synthetic.write_list(out))?;
    write_file(&directory.join("reviews.jsonl"), |out| {
        requests(synthetic, modes, WRITTEN_REQUESTS).write_reviews(out)
    })
}

fn write_file(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>,
) -> Result<(), Failure> {
    let written = File::create(path).map(BufWriter::new).and_then(|mut out| {
        write(&mut out)?;
        out.flush()
    });
    written.map_err(|error| Failure::input(format_args!("cannot write {}: {error}", path.display())))?;
    writeln!(std::io::stdout(), "wrote {}", path.display())?;
    Ok(())
}
