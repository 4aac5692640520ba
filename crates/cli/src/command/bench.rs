//! `portcullis bench`: how fast decisions are, and what the index takes.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use portcullis_policy::chain::Mode;
use portcullis_policy::engine::{Builder, Engine};
use portcullis_server::state;

use crate::bench::memory;
use crate::bench::questions::Questions;
use crate::bench::run::{Plan, measure};
use crate::bench::synthetic::Synthetic;
use crate::bench::writer::Updates;
use crate::engine_flags::{EngineFlags, threads};
use crate::failure::Failure;
use crate::lines::Lines;

/// How many requests are made for a made-up cluster.
const SYNTHETIC_REQUESTS: u32 = 400_000;

/// Measure decisions over a snapshot of a cluster, or over a made-up one
///
/// Prints one JSON object on its last line. Times are of single decisions, in nanoseconds, each measured, and include
/// reading the clock once; `graph_bytes` is what the allocator holds for the index.
#[derive(Args, Debug)]
pub struct BenchArgs {
    #[command(flatten)]
    engine: EngineFlags,

    /// SubjectAccessReviews to ask again and again, one JSON object per line
    #[arg(long, value_name = "FILE", required_unless_present = "synthetic")]
    reviews: Option<PathBuf>,

    /// Make state and requests: nodes=N,pods-per-node=P,bindings=B
    #[arg(long, value_name = "SIZES", conflicts_with_all = ["state", "reviews"])]
    synthetic: Option<Synthetic>,

    /// Write the made-up state into this directory, as JSON files, and measure nothing
    #[arg(long, value_name = "DIR", requires = "synthetic")]
    write_state: Option<PathBuf>,

    /// Threads that decide
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,

    /// How long to measure
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,

    /// Take one pod out and in again so often beside the decisions
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=10_000_000))]
    updates_per_second: u32,
}

/// Runs the command.
///
/// # Errors
/// Flags, objects or reviews that cannot be used.
pub fn run(args: &BenchArgs) -> Result<ExitCode, Failure> {
    if let (Some(synthetic), Some(directory)) = (args.synthetic, &args.write_state) {
        return write_state(synthetic, directory);
    }
    let config = args.engine.config()?;
    let modes = config.modes.clone();
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
    let mut requests = Default::default();
    if modes.contains(&Mode::Node) {
        requests = synthetic.node_requests(SYNTHETIC_REQUESTS);
    }
    if modes.contains(&Mode::Rbac) {
        requests.append(synthetic.user_requests(SYNTHETIC_REQUESTS));
    }
    Ok(Questions::Synthetic(requests))
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
    let share = found.allowed as f64 / found.latency.total().max(1) as f64;
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
        "decisions_per_second": (found.latency.total() as f64 / found.elapsed.as_secs_f64()).round(),
        "p50_ns": found.latency.quantile(0.50),
        "p99_ns": found.latency.quantile(0.99),
        "max_ns": found.latency.max(),
        "rss_bytes": memory::resident(),
        "graph_bytes": graph_bytes,
    });
    writeln!(out, "{summary}")?;
    Ok(ExitCode::SUCCESS)
}

fn write_state(synthetic: Synthetic, directory: &std::path::Path) -> Result<ExitCode, Failure> {
    let path = directory.join("synthetic.json");
    let failed = |error| Failure::input(format_args!("cannot write {}: {error}", path.display()));
    std::fs::create_dir_all(directory).map_err(failed)?;
    let mut out = std::io::BufWriter::new(std::fs::File::create(&path).map_err(failed)?);
    synthetic.write_list(&mut out).and_then(|()| out.flush()).map_err(failed)?;
    println!("{}", path.display());
    Ok(ExitCode::SUCCESS)
}
