//! `portcullis store export`: writes the objects of a store into a directory of YAML.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use portcullis_server::registry::content::Item;

use super::directory::Writer;
use super::report::{counted, report, tell_foreign};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::store_flags::StoreFlags;

/// Write all objects of a store into a directory, one YAML file each, at one revision
///
/// A file lies at GROUP/RESOURCE/[NAMESPACE/]NAME.yaml, with `core` for the core group. It has everything of the object but
/// its resourceVersion. The file manifest.yaml is written last: a directory without it is incomplete, and cannot be
/// imported. Secrets are in the files in plain text, so only their owner can read them.
///
/// Reads only: servers may use the etcd meanwhile. What this version does not serve, such as custom objects without a definition, is counted
/// and left out.
///
/// Exit codes: 0 all objects are exported; 1 some cannot be read, which are named; 2 bad flags, or the directory is not
/// empty; 3 the store cannot be read, or the directory cannot be written.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct ExportArgs {
    /// The directory to write to: one that does not exist, or is empty
    #[arg(long, value_name = "DIR")]
    to: PathBuf,

    /// Complete the export although objects cannot be read; the manifest lists them. Without this flag the directory has no
    /// manifest then
    #[arg(long)]
    skip_unreadable: bool,

    #[command(flatten)]
    store: StoreFlags,
}

const EXAMPLES: &str = "\
Examples:
  portcullis store export --data-dir ./portcullis-data --to saved
  portcullis store export --etcd-servers http://127.0.0.1:2379 --to saved";

/// Runs the command.
///
/// # Errors
/// Flags are invalid, the store cannot be read, or the directory cannot be written.
pub(super) async fn run(args: &ExportArgs) -> Result<ExitCode, Failure> {
    let content = args.store.content(Duration::ZERO).await?;
    let mut source = content.source().await?;
    let mut writer = Writer::new(&args.to)?;
    let mut progress = Progress::new("exported");
    let mut unreadable = Vec::new();
    let mut foreign: BTreeMap<String, u64> = BTreeMap::new();
    let mut seen = 0_u64;
    loop {
        let page = source.next().await?;
        if page.is_empty() {
            break;
        }
        seen = seen.saturating_add(page.len() as u64);
        for item in page {
            match item {
                Item::Object { key, json, .. } => writer.write(&key, &json)?,
                Item::Unreadable(_, value) => {
                    report(&mut progress, &value);
                    unreadable.push(value.key);
                }
                Item::Foreign(resource) => {
                    let count = foreign.entry(resource).or_default();
                    *count = count.saturating_add(1);
                }
            }
        }
        progress.at(seen, source.total());
    }
    drop(progress);
    tell_foreign(&foreign);
    if !unreadable.is_empty() && !args.skip_unreadable {
        return Err(Failure::refused(format_args!(
            "{} cannot be read, so {} is not complete and has no manifest: repair or remove the values, or leave them out with \
             --skip-unreadable",
            counted(unreadable.len() as u64, "value"),
            args.to.display()
        )));
    }
    let left_out = unreadable.len() as u64;
    let manifest = writer.finish(args.store.kind(), source.revision(), unreadable)?;
    writeln!(
        std::io::stdout().lock(),
        "{} of {} at revision {} are in {}\nOnly their owner can read the files: they contain secrets in plain text.",
        counted(manifest.objects(), "object"),
        args.store.describe(),
        manifest.revision,
        args.to.display()
    )?;
    if left_out > 0 {
        eprintln!("warning: {} left out, because they cannot be read", counted(left_out, "value"));
        return Ok(ExitCode::from(1));
    }
    Ok(ExitCode::SUCCESS)
}
