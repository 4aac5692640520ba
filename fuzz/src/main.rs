//! Runs every parser of external input on mutated inputs, reproducibly for a given seed.
//!
//! `cargo run -p portcullis-fuzz -- [--target NAME] [--seconds N] [--seed S]`. Each target starts from the files of
//! `fuzz/corpus/NAME/`, which are first run unchanged. An input that makes a target panic, violate an invariant or take
//! longer than a second is written to `fuzz/artifacts/` and can be run again with `--input FILE`. A stack overflow ends
//! the process at once; the input is then left there as `NAME-running`.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a target reports a broken promise by panicking"
)]

use std::fs;
use std::num::NonZero;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Parser;
use portcullis_testkit::mutate::{Random, mutate};
use portcullis_testkit::recorded;
use rustix::time::{ClockId, clock_gettime};

mod targets;

use targets::{TARGETS, Target};

/// The time limit for an input; taking longer is an error.
const SLOW: Duration = Duration::from_secs(1);

/// Runs every parser of external input on mutated inputs.
#[derive(Parser)]
struct Arguments {
    /// Run only this target; may be repeated.
    #[arg(long, value_name = "NAME")]
    target: Vec<String>,
    /// How long to run each target.
    #[arg(long, value_name = "N", default_value_t = 5)]
    seconds: u64,
    /// The seed of the mutations.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Run one input through the target and stop.
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Print the names of the targets.
    #[arg(long)]
    list: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    if arguments.list {
        TARGETS.iter().for_each(|target| println!("{}", target.name));
        return Ok(ExitCode::SUCCESS);
    }
    let targets = chosen(&arguments.target)?;
    if let Some(path) = &arguments.input {
        let [target] = targets.as_slice() else { bail!("--input needs exactly one --target") };
        let input = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let verdict = if (target.run)(&input) { "taken" } else { "refused" };
        println!("{verdict}; 1 passed, 0 failed");
        return Ok(ExitCode::SUCCESS);
    }
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || {
        while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(error) = run(target, Duration::from_secs(arguments.seconds), arguments.seed) {
                eprintln!("{}: {error:#}", target.name);
                failed.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    // A target on each processor.
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(work);
        }
    });
    let failed = failed.into_inner();
    println!("{} passed, {failed} failed", targets.len() - failed);
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn chosen(names: &[String]) -> anyhow::Result<Vec<&'static Target>> {
    if let Some(name) = names.iter().find(|name| TARGETS.iter().all(|target| target.name != **name)) {
        bail!("no target {name:?}: --list prints their names");
    }
    let wanted = |target: &&Target| names.is_empty() || names.iter().any(|name| name == target.name);
    Ok(TARGETS.iter().filter(wanted).collect())
}

/// Runs a target on its corpus and on mutated copies of it until the time has elapsed.
fn run(target: &'static Target, time: Duration, seed: u64) -> anyhow::Result<()> {
    let corpus = corpus(target.name)?;
    let mut random = Random::new(seed);
    let (start, mut rounds, mut taken) = (Instant::now(), 0u64, 0u64);
    let mut is_any_taken = false;
    for input in &corpus {
        is_any_taken |= try_input(target, input, "the corpus")?;
    }
    if !is_any_taken {
        bail!("nothing of the corpus is taken: the promises are never put to the test");
    }
    while start.elapsed() < time {
        let batch: Vec<Vec<u8>> = (0..64).map(|_| mutate(&mut random, &corpus, target.dictionary)).collect();
        for input in batch {
            taken += u64::from(try_input(target, &input, &format!("seed {seed}, round {rounds}"))?);
            rounds += 1;
        }
    }
    let (name, entries) = (target.name, corpus.len());
    println!("{name}: {entries} corpus entries, {rounds} damaged inputs, {taken} taken, seed {seed}");
    Ok(())
}

/// Runs one input as a server would: in a thread with the usual stack size. Returns whether it was accepted.
fn try_input(target: &'static Target, input: &[u8], origin: &str) -> anyhow::Result<bool> {
    let running = keep(&format!("{}-running", target.name), input)?;
    let start = Instant::now();
    let attempt = || {
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
        (outcome, worked())
    };
    let in_thread = || thread::scope(|scope| scope.spawn(attempt).join().expect("panics are caught within"));
    let (outcome, _) = in_thread();
    let mut taken = start.elapsed();
    if outcome.is_ok() && taken > SLOW {
        // The machine may have been busy: try again and count the CPU time of the thread alone.
        taken = in_thread().1;
    }
    fs::remove_file(running)?;
    if let (Ok(is_taken), true) = (&outcome, taken <= SLOW) {
        return Ok(*is_taken);
    }
    let path = keep(&format!("{}-{:016x}", target.name, hash(input)), input)?;
    let what = if outcome.is_err() { "panicked".to_owned() } else { format!("took {taken:?}") };
    bail!("{what} ({origin}); kept as {}", path.display())
}

/// The CPU time that this thread has used.
fn worked() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// Returns the entries of a corpus: its files, and each line of a file `*.lines`.
fn corpus(name: &str) -> anyhow::Result<Vec<Vec<u8>>> {
    let folder = folder().join("corpus").join(name);
    let entries = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>()?;
    paths.sort();
    if paths.is_empty() {
        bail!("{} is empty: a target needs something to start from", folder.display());
    }
    let mut entries = Vec::new();
    for path in paths {
        let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
        match path.extension() {
            Some(extension) if extension == "lines" => {
                entries
                    .extend(bytes.split(|b| *b == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec));
            }
            _ => entries.push(bytes),
        }
    }
    Ok(entries)
}

fn keep(name: &str, input: &[u8]) -> anyhow::Result<PathBuf> {
    let folder = folder().join("artifacts");
    fs::create_dir_all(&folder)?;
    let path = folder.join(name);
    fs::write(&path, input)?;
    Ok(path)
}

/// Returns a short name for an input.
fn hash(input: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    input.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

fn folder() -> PathBuf {
    recorded::repository().join(Path::new("fuzz"))
}
