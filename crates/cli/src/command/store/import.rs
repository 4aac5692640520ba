//! `portcullis store import`: fills an empty store from a directory of YAML.

use std::collections::{BTreeMap, HashSet};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use portcullis_server::registry::content::{Bytes, Content, Item, are_equal, resource};

use super::directory::Reader;
use super::report::counted;
use crate::failure::Failure;
use crate::limit_flags::duration;
use crate::progress::Progress;
use crate::store_flags::StoreFlags;
use crate::terminal::plain;

/// The most problems that are named.
const MOST_NAMED: usize = 20;

/// Fill an empty store with the objects of an export
///
/// All files are read and checked first; if anything is wrong with them, nothing is written. Objects keep their uid, their
/// creation time and everything else but their resourceVersion. They are encrypted as --encryption-provider-config says.
///
/// The file of a data directory appears when it is complete. In etcd objects appear one after the other: stop the servers
/// first. An import that was interrupted goes on when it is started again: objects that are there already and equal are skipped.
/// An object in the store that differs from the export, or is not in it, is an error, and nothing is written.
///
/// Clients know other revisions than those of the new store: restart kubelets, controllers and whatever else watches.
///
/// Exit codes: 0 all objects are in the store; 2 bad flags, a file is invalid, or the store has other objects; 3 the store
/// cannot be read or written.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct ImportArgs {
    /// The directory of an export
    #[arg(long, value_name = "DIR")]
    from: PathBuf,

    /// How long imported events live in etcd; 0 for as long as nobody deletes them
    #[arg(long, value_name = "TIME", default_value = "1h0m0s", value_parser = duration)]
    event_ttl: Duration,

    #[command(flatten)]
    store: StoreFlags,
}

const EXAMPLES: &str = "\
Examples:
  portcullis store import --from saved --data-dir ./portcullis-data
  portcullis store import --from saved --etcd-servers http://127.0.0.1:2379 --encryption-provider-config encryption.yaml";

/// Problems: the first ones as text, and the number of all.
#[derive(Default)]
struct Problems {
    named: Vec<String>,
    count: u64,
}

impl Problems {
    fn add(&mut self, problem: String) {
        self.count = self.count.saturating_add(1);
        if self.named.len() < MOST_NAMED {
            self.named.push(problem);
        }
    }

    /// Fails if there is any problem.
    fn end(self, what: &str) -> Result<(), Failure> {
        if self.count == 0 {
            return Ok(());
        }
        let named: Vec<String> = self.named.iter().map(|problem| plain(problem)).collect();
        let rest = match self.count.saturating_sub(self.named.len() as u64) {
            0 => String::new(),
            more => format!("\n... and {more} more"),
        };
        Err(Failure::input(format_args!("{what}. Nothing was written:\n{}{rest}", named.join("\n"))))
    }
}

/// Runs the command.
///
/// # Errors
/// See the exit codes.
pub(super) async fn run(args: &ImportArgs) -> Result<ExitCode, Failure> {
    let export = Reader::open(&args.from)?;
    let content = args.store.content(args.event_ttl).await?;
    check(&export, &content)?;
    let there = already(&export, &content, &args.store.describe()).await?;
    let total = export.manifest.objects();
    let missing = total.saturating_sub(there.len() as u64);
    if missing > 0 {
        if !there.is_empty() {
            eprintln!(
                "note: {} of {total} are there already: going on",
                counted(there.len() as u64, "object")
            );
        }
        write(&export, &content, &there, missing).await?;
    }
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{} of {} are in {}: {missing} written now, {} there before",
        counted(total, "object"),
        args.from.display(),
        args.store.describe(),
        there.len()
    )?;
    if !content.encrypts_secrets() {
        writeln!(
            out,
            "Secrets are readable there: encrypt them with --encryption-provider-config, or encrypt its disks."
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Checks all files, and that none is missing.
fn check(export: &Reader, content: &Content) -> Result<(), Failure> {
    let mut problems = Problems::default();
    let mut progress = Progress::new("checked");
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    define(export, content, &mut problems)?;
    let (mut done, total) = (0_u64, export.manifest.objects());
    export.each(&mut |path, key| {
        let Some(key) = key else {
            problems.add(format!("{path}: is no file of an export: remove it"));
            return Ok(());
        };
        let count = found.entry(resource(&key).to_owned()).or_default();
        *count = count.saturating_add(1);
        if let Err(problem) = document(export, content, &key) {
            problems.add(problem);
        }
        done = done.saturating_add(1);
        progress.at(done, total);
        Ok(())
    })?;
    let manifest = &export.manifest.resources;
    for name in manifest.keys().chain(found.keys()).collect::<std::collections::BTreeSet<_>>() {
        let (due, there) = (manifest.get(name).copied().unwrap_or(0), found.get(name).copied().unwrap_or(0));
        if due != there {
            problems.add(format!(
                "{name}: there are {there} files where the manifest says {due}: restore the files; after a change on purpose, \
                 correct manifest.yaml"
            ));
        }
    }
    drop(progress);
    problems.end("the export cannot be used")
}

/// Takes in the definitions of custom kinds, before their objects are read.
fn define(export: &Reader, content: &Content, problems: &mut Problems) -> Result<(), Failure> {
    export.each(&mut |path, key| {
        let Some(key) = key.filter(|key| Content::is_definition(key)) else { return Ok(()) };
        // One that cannot be read is reported with all files.
        if let Ok(json) = document(export, content, &key)
            && let Err(why) = content.define(&key, &json)
        {
            problems.add(format!("{path}: {why}: correct it, or remove it with the objects of its kind"));
        }
        Ok(())
    })
}

/// The document of a key, in the form in which stores take it.
fn document(export: &Reader, content: &Content, key: &str) -> Result<Bytes, String> {
    let path = || key.trim_start_matches('/').to_owned();
    let json = export.document(key)?.ok_or_else(|| format!("{}: the file is gone", path()))?;
    content.read(key, &json).map_err(|problem| format!("{}: {problem}", path()))
}

/// The keys of the objects that the store has already, which must be equal to those of the export.
async fn already(export: &Reader, content: &Content, store: &str) -> Result<HashSet<Box<str>>, Failure> {
    let mut there = HashSet::new();
    if content.is_new() {
        return Ok(there);
    }
    let mut problems = Problems::default();
    let mut progress = Progress::new("compared with what is there");
    let mut source = content.source().await?;
    let mut done = 0_u64;
    loop {
        let page = source.next().await?;
        if page.is_empty() {
            break;
        }
        done = done.saturating_add(page.len() as u64);
        for item in page {
            match item {
                Item::Object { key, json, .. } => match export.document(&key) {
                    Ok(None) => problems.add(format!("{key} is there, and is not in the export")),
                    Ok(Some(_)) => match document(export, content, &key) {
                        Ok(due) if are_equal(&due, &json) => drop(there.insert(key)),
                        Ok(_) => problems.add(format!("{key} is there, and differs from the export")),
                        Err(problem) => problems.add(problem),
                    },
                    Err(problem) => problems.add(problem),
                },
                Item::Unreadable(_, value) => {
                    problems.add(format!("{} is there, and its value {}", value.key, value.why));
                }
                Item::Foreign(_) => {}
            }
        }
        progress.at(done, source.total());
    }
    drop(progress);
    problems.end(&format!("{store} has other objects, and only an empty store is filled"))?;
    Ok(there)
}

/// Writes what is missing.
async fn write(
    export: &Reader,
    content: &Content,
    there: &HashSet<Box<str>>,
    missing: u64,
) -> Result<(), Failure> {
    let mut keys = Vec::new();
    export.each(&mut |_, key| {
        keys.extend(key.filter(|key| !there.contains(key.as_str())));
        Ok(())
    })?;
    let mut progress = Progress::new("imported");
    let mut target = content.target()?;
    for (done, key) in (1_u64..).zip(&keys) {
        let json = document(export, content, key).map_err(|problem| {
            Failure::input(format_args!("the export has changed meanwhile: {}", plain(&problem)))
        })?;
        target.put(key, json).await?;
        progress.at(done, missing);
    }
    Ok(target.finish().await?)
}
