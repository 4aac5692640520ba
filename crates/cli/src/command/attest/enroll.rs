//! `portcullis attest enroll`: adds a machine to an inventory (AT-100, AT-112).

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use portcullis_attestation::Device;
use portcullis_attestation::hex::hex;
use portcullis_attestation::inventory::{Inventory, InventoryFile};
use portcullis_pki::{random_bytes, sha256};
use serde_json::json;

use crate::failure::Failure;

/// Add a machine to an inventory
///
/// Appends an entry to the file, or creates it. The whole inventory is checked first: no two machines may have a name,
/// a provider ID or a key in common. A running controller reads the file again.
///
/// Exit codes: 0 done; 2 bad flags or files, and nothing was changed.
#[derive(Args, Debug)]
pub(super) struct EnrollArgs {
    /// The name of the node
    #[arg(value_name = "NODE")]
    node_name: String,

    /// The provider ID of the machine, such as metal://rack-1/node-1
    #[arg(long, value_name = "ID")]
    provider_id: String,

    /// The inventory
    #[arg(long, value_name = "FILE")]
    inventory: PathBuf,

    /// The digest of the TPM's endorsement key, as portcullis credential inspect prints it. Repeatable
    #[arg(long, value_name = "DIGEST")]
    endorsement_key: Vec<String>,

    /// An IP address or DNS name of the machine, for its serving certificate. Repeatable
    #[arg(long, value_name = "ADDRESS")]
    address: Vec<String>,

    /// A file with the machine's public key in PEM, for the attestor challenge
    #[arg(long, value_name = "FILE", conflicts_with = "new_secret_file")]
    public_key_file: Option<PathBuf>,

    /// Make a secret that is good for one certificate, write it into this file for the machine, and its digest into the
    /// inventory
    #[arg(long, value_name = "FILE")]
    new_secret_file: Option<PathBuf>,
}

/// Adds the machine.
pub(super) fn run(args: &EnrollArgs) -> Result<ExitCode, Failure> {
    let before = match fs::read_to_string(&args.inventory) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(unreadable(&args.inventory, &error)),
    };
    let secret = match &args.new_secret_file {
        Some(_) => Some(hex(&random_bytes::<32>().map_err(Failure::unreachable)?)),
        None => None,
    };
    let mut entry = json!({"nodeName": args.node_name, "providerID": args.provider_id});
    let mut put = |name: &str, value: serde_json::Value| {
        if let Some(entry) = entry.as_object_mut() {
            entry.insert(name.to_owned(), value);
        }
    };
    if !args.endorsement_key.is_empty() {
        put("endorsementKeys", args.endorsement_key.clone().into());
    }
    if !args.address.is_empty() {
        put("addresses", args.address.clone().into());
    }
    if let Some(path) = &args.public_key_file {
        let text = fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
        put("publicKey", text.into());
    }
    if let Some(secret) = &secret {
        put("secretDigest", Device(sha256(secret.as_bytes())).to_string().into());
    }
    let after = appended(&before, &entry.to_string());
    let wrong = |why: String| Failure::input(format_args!("{}: {why}", args.inventory.display()));
    let document: InventoryFile = serde_saphyr::from_str(&after).map_err(|error| wrong(error.to_string()))?;
    let inventory = Inventory::new(document).map_err(wrong)?;
    if inventory.of_node(&args.node_name).is_none() {
        return Err(wrong("machines is not the last field, so nothing can be appended to it".to_owned()));
    }
    if let (Some(path), Some(secret)) = (&args.new_secret_file, &secret) {
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(path);
        let mut file =
            file.map_err(|error| Failure::input(format_args!("cannot create {}: {error}", path.display())))?;
        writeln!(file, "{secret}")?;
    }
    replace(&args.inventory, &after)?;
    let count = inventory.len();
    let mut out = std::io::stdout().lock();
    writeln!(out, "enrolled node {} in {} ({count} machines)", args.node_name, args.inventory.display())?;
    Ok(ExitCode::SUCCESS)
}

/// The document with one more entry. JSON is YAML, so an entry in one line needs no quoting of its own.
fn appended(before: &str, entry: &str) -> String {
    let mut text = if before.trim().is_empty() { "machines:\n".to_owned() } else { before.to_owned() };
    if !text.ends_with('\n') {
        text.push('\n');
    }
    // Entries that are there may be indented.
    let first = text.lines().find(|line| line.trim_start().starts_with("- ")).unwrap_or_default();
    let indent = first.len() - first.trim_start().len();
    format!("{text}{}- {entry}\n", " ".repeat(indent))
}

/// Replaces a file as a whole: a controller that reads it sees the old or the new inventory.
fn replace(path: &Path, text: &str) -> Result<(), Failure> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".new");
    let new = path.with_file_name(name);
    let written = fs::write(&new, text).and_then(|()| match fs::metadata(path) {
        Ok(old) => fs::set_permissions(&new, old.permissions()),
        Err(_) => Ok(()),
    });
    written
        .and_then(|()| fs::rename(&new, path))
        .map_err(|error| Failure::input(format_args!("cannot write {}: {error}", path.display())))
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::input(format_args!("cannot read {}: {error}", path.display()))
}
