//! `portcullis credential inspect`: the TPM of this machine and the cache, without contacting a server (AT-193).

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use clap::Args;
use portcullis_attestation::Device;
use portcullis_attestation::time::instant;
use portcullis_client::attested_certificate::cache::{Cache, Generation};
use portcullis_client::attested_certificate::error::AttestedError;
use portcullis_client::attested_certificate::key::NodeKey;
use portcullis_client::attested_certificate::validity::{self, State};
use portcullis_client::node_certificate::request;
use portcullis_pki::tpm::PublicArea;
use portcullis_tpm::{Address, EndorsementKind, Tpm, TpmError};

use crate::failure::Failure;
use crate::table::columns;

/// The endorsement keys that are looked for, with their names in --tpm-endorsement-key.
const KINDS: [(EndorsementKind, &str); 3] = [
    (EndorsementKind::Rsa2048, "rsa2048"),
    (EndorsementKind::P256, "p256"),
    (EndorsementKind::HighP384, "p384"),
];

/// Print what the TPM of this machine says, and the state of the cache
///
/// The digests are what an inventory lists as endorsementKeys. No server is contacted.
///
/// Exit codes: 0 done; 2 bad flags, or a cache that is not private; 3 the TPM cannot be reached.
#[derive(Args, Debug)]
pub(super) struct InspectArgs {
    /// The TPM: a device, unix:SOCKET or tcp:HOST:PORT [default: /dev/tpmrm0, else /dev/tpm0]
    #[arg(long, value_name = "ADDRESS")]
    tpm: Option<String>,

    /// The directory of keys and certificates
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
}

/// Runs the command.
pub(super) fn run(args: &InspectArgs) -> Result<ExitCode, Failure> {
    let address = match &args.tpm {
        Some(text) => text.parse().map_err(|error| Failure::input(format_args!("--tpm: {error}")))?,
        None => Address::of_this_machine().map_err(Failure::unreachable)?,
    };
    let tpm = Tpm::at(address);
    let about = tpm.properties().map_err(Failure::unreachable)?;
    let certified = tpm.certified_kinds().map_err(Failure::unreachable)?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "TPM {}", tpm.address())?;
    writeln!(out, "made by {} {}, firmware {:#x}", about.manufacturer, about.vendor, about.firmware)?;
    let mut rows = vec![["ENDORSEMENT KEY", "CERTIFICATE", "DIGEST"].map(str::to_owned).to_vec()];
    for (kind, name) in KINDS {
        let digest = match digest(&tpm, kind) {
            Ok(digest) => digest.to_string(),
            // A TPM need not have every kind.
            Err(Missing::Key(error)) if error.code().is_some() || !certified.contains(&kind) => {
                format!("none: {error}")
            }
            Err(Missing::Key(error)) => return Err(Failure::unreachable(error)),
            Err(Missing::Malformed(why)) => format!("unknown: {why}"),
        };
        let has = if certified.contains(&kind) { "yes" } else { "no" };
        rows.push(vec![name.to_owned(), has.to_owned(), digest]);
    }
    columns(&mut out, &rows)?;
    if let Some(dir) = &args.cache_dir {
        writeln!(out, "cache {}: {}", dir.display(), cache(dir, &tpm)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

enum Missing {
    Key(TpmError),
    Malformed(String),
}

/// The digest of an endorsement key.
fn digest(tpm: &Tpm, kind: EndorsementKind) -> Result<Device, Missing> {
    let key = tpm.endorsement_key_of(kind).map_err(Missing::Key)?;
    let area = PublicArea::parse(&key.public).map_err(|error| Missing::Malformed(error.to_string()))?;
    Ok(Device(area.digest()))
}

/// What a cache has, in one line.
fn cache(dir: &Path, tpm: &Tpm) -> Result<String, Failure> {
    if !dir.exists() {
        return Ok("does not exist".to_owned());
    }
    let input = |error: AttestedError| Failure::input(error);
    let found = Cache::open(dir).and_then(|cache| cache.current(Some(tpm))).map_err(input)?;
    let Generation { certificate, key, meta } = match found {
        Ok(Some(generation)) => generation,
        Ok(None) => return Ok("has no certificate".to_owned()),
        Err(why) => return Ok(format!("cannot be used: {why}")),
    };
    let template = request::template(&meta.node_name).map_err(Failure::input)?;
    let state = match validity::state(&certificate, key.public_der(), &template, None, SystemTime::now()) {
        State::Usable => "usable".to_owned(),
        State::Rotate => "usable, due for renewal".to_owned(),
        State::Unusable(why) => format!("unusable ({why})"),
    };
    let place = match key {
        NodeKey::Software(_) => "in software",
        NodeKey::Resident(_) => "in the TPM",
    };
    let until = instant(certificate.not_after());
    Ok(format!(
        "{state}; node {}, attestor {}, key {place}, valid until {until}",
        meta.node_name, meta.provider
    ))
}
