//! Loads cluster state from files: Kubernetes objects in JSON or YAML, as printed by `kubectl get`, and archives of `portcullis
//! collect`.
//!
//! Loading is strict: it stops at the first error, and the caller must discard what it built from the objects before.
//! Objects of other kinds are checked, counted and otherwise ignored. Nothing is added to what the files say, and no
//! file is written.
//!
//! Each byte is read three times: once to split the file into objects, then in parallel by the strict check and by the
//! decoder. Objects are returned in file order, whatever the number of threads.

use std::collections::BTreeMap;
use std::io::Read;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use policy::objects::Kind;
use portcullis_apimachinery::json::JsonError;

mod beside;
mod decode;
mod error;
mod files;
pub mod manifest;
mod parallel;
mod places;
mod seen;
mod source;
mod split;
mod tar;
pub(crate) mod yaml;

pub use beside::{Beside, KubeletFile, KubeletForm};
pub use decode::{ForAudit, ForDecisions, Reading};
pub use error::StateError;
pub use files::{Format, MAX_ARCHIVE_BYTES, MAX_FILE_BYTES, MAX_YAML_BYTES, TakeFile};
pub use places::line_of;
pub use source::{Source, SourceError};
pub use tar::Writer as TarWriter;
pub use yaml::to_json as yaml_to_json;

use decode::Decoded;
use manifest::Manifest;
use parallel::Chunk;
use seen::{Place, Seen};
use split::{Pieces, start_of};

/// A summary of what was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary<K = Kind> {
    /// The number of files.
    pub files: usize,
    /// The number of objects of each kind that is read.
    pub objects: BTreeMap<K, u64>,
    /// The number of ignored objects, by `apiVersion` and `kind`.
    pub ignored: BTreeMap<(String, String), u64>,
    /// What the state has beside objects.
    pub beside: Beside,
}

impl<K> Default for Summary<K> {
    fn default() -> Self {
        Self { files: 0, objects: BTreeMap::new(), ignored: BTreeMap::new(), beside: Beside::default() }
    }
}

impl<K> Summary<K> {
    /// Returns the number of objects that were read.
    pub fn object_count(&self) -> u64 {
        self.objects.values().sum()
    }

    /// Returns the number of ignored objects.
    pub fn ignored_count(&self) -> u64 {
        self.ignored.values().sum()
    }
}

/// Receives objects, or returns why it refuses one.
pub type Sink<'s, R = ForDecisions> = dyn FnMut(<R as Reading>::Object<'_>) -> Result<(), String> + 's;

/// Loads all files of the paths and passes each object to `sink`, in order. A directory is read recursively. Without
/// paths the state is empty.
///
/// # Errors
/// A path cannot be read; a file is not output of `kubectl get`, or is truncated; an object of a used kind is not
/// decodable, has no name, or occurs twice, in whatever version. The caller must then discard what `sink` has built.
pub fn load(paths: &[PathBuf], threads: NonZeroUsize, sink: &mut Sink<'_>) -> Result<Summary, StateError> {
    load_for::<ForDecisions>(paths, threads, sink)
}

/// As [`load`], with the objects of another reading.
///
/// # Errors
/// As [`load`].
pub fn load_for<R: Reading>(
    paths: &[PathBuf],
    threads: NonZeroUsize,
    sink: &mut Sink<'_, R>,
) -> Result<Summary<R::Kind>, StateError> {
    let mut loader = Loader::reading(threads, sink);
    let (_, beside) = each_text(paths, &mut |path, format, text| loader.text(path, format, text))?;
    Ok(Summary { beside, ..loader.finish() })
}

/// Receives the text of a file with objects, and returns how many there are.
type TakeText<'t> = dyn FnMut(&Path, Format, &str) -> Result<u64, StateError> + 't;

/// Passes the text of every file with objects to `take`, in order. Returns how many they are, and what there is beside them.
fn each_text(paths: &[PathBuf], take: &mut TakeText<'_>) -> Result<(usize, Beside), StateError> {
    let mut beside = Beside::default();
    let mut counts = BTreeMap::new();
    let mut manifests = Vec::new();
    for file in files::find(paths)? {
        files::read(&file, &mut |path, format, text| {
            let known = beside.manifests.len();
            if let Some(text) = beside.take(path, format, text)? {
                counts.insert(path.to_owned(), take(path, format, &text)?);
            } else if beside.manifests.len() > known {
                manifests.push(path.to_owned());
            }
            Ok(())
        })?;
    }
    for (path, manifest) in manifests.iter().zip(&beside.manifests) {
        complete(path, manifest, &counts)?;
    }
    Ok((counts.len(), beside))
}

/// Checks that an archive has what its manifest says: a file that is missing must not be taken for a kind without objects.
fn complete(path: &Path, manifest: &Manifest, counts: &BTreeMap<PathBuf, u64>) -> Result<(), StateError> {
    for (name, count) in manifest.files() {
        let file = path.with_file_name(name);
        let reason = match counts.get(&file) {
            Some(found) if *found == count => continue,
            Some(found) => format!("has {found} objects, and {count} by its manifest"),
            None => format!("is missing, and has {count} objects by its manifest"),
        };
        return Err(StateError::whole(&file, format!("{reason}: the archive is damaged, collect it again")));
    }
    Ok(())
}

/// One object of a file, of any kind.
#[derive(Clone, Copy, Debug)]
pub struct Document<'t> {
    /// Its `apiVersion`.
    pub api_version: &'t str,
    /// Its `kind`.
    pub kind: &'t str,
    /// The object in JSON.
    pub json: &'t str,
    /// The file.
    pub path: &'t Path,
    /// The line where it begins, from 1.
    pub line: usize,
}

/// An error in an object: the field and the reason.
pub type Fault = (String, String);

/// Passes every object of the files to `take`, in order, and returns the number of files.
///
/// # Errors
/// See [`load`]; also errors that `take` returns.
pub fn documents(
    paths: &[PathBuf],
    take: &mut dyn FnMut(Document<'_>) -> Result<(), Fault>,
) -> Result<usize, StateError> {
    let (files, _) = each_text(paths, &mut |path, format, text| {
        let of_file = |error| StateError::of(path, error);
        let converted = match format {
            Format::Json => None,
            Format::Yaml => Some(yaml::to_json(text).map_err(of_file)?),
        };
        let text = converted.as_deref().unwrap_or(text);
        let pieces = split::split(text).map_err(of_file)?;
        let (mut at, mut line) = (0, 1_usize);
        for piece in &pieces.pieces {
            let (api_version, kind) = decode::type_of(text, &pieces, *piece).map_err(of_file)?;
            let start = start_of(text, piece.text);
            line = line.saturating_add(text.get(at..start).unwrap_or_default().matches('\n').count());
            at = start;
            let document = Document { api_version: &api_version, kind: &kind, json: piece.text, path, line };
            let fault = |(field, reason): Fault| decode::fault(text, *piece, &field, reason);
            take(document).map_err(fault).map_err(of_file)?;
        }
        Ok(pieces.pieces.len() as u64)
    })?;
    Ok(files)
}

/// Passes the state files of a tar archive, which is not compressed, to `take`, in order.
///
/// # Errors
/// The archive or a file of it is damaged, or too large; or what `take` returns.
pub fn archive(name: &Path, content: impl Read, take: &mut TakeFile<'_>) -> Result<(), StateError> {
    files::read_archive(name, content, take)
}

/// Loads one file after another.
pub struct Loader<'s, R: Reading = ForDecisions> {
    threads: NonZeroUsize,
    sink: &'s mut Sink<'s, R>,
    seen: Seen<R::Kind>,
    files: Vec<PathBuf>,
    summary: Summary<R::Kind>,
}

impl<'s> Loader<'s> {
    /// Creates a loader that passes objects to `sink`, and decodes on this many additional threads.
    pub fn new(threads: NonZeroUsize, sink: &'s mut Sink<'s>) -> Self {
        Self::reading(threads, sink)
    }
}

impl<'s, R: Reading> Loader<'s, R> {
    /// As [`Loader::new`], with the objects of another reading.
    pub fn reading(threads: NonZeroUsize, sink: &'s mut Sink<'s, R>) -> Self {
        Self { threads, sink, seen: Seen::default(), files: Vec::new(), summary: Summary::default() }
    }

    /// Loads a text as if it were the content of file `name`. Returns how many objects it has, of whatever kind.
    ///
    /// # Errors
    /// As [`load`].
    pub fn text(&mut self, name: &Path, format: Format, text: &str) -> Result<u64, StateError> {
        self.files.push(name.to_owned());
        self.summary.files = self.files.len();
        match format {
            Format::Json => self.json(text),
            Format::Yaml => yaml::to_json(text).and_then(|json| self.json(&json)),
        }
        .map_err(|error| StateError::of(name, error))
    }

    /// The loaded objects.
    pub fn finish(self) -> Summary<R::Kind> {
        self.summary
    }

    fn json(&mut self, text: &str) -> Result<u64, JsonError> {
        let pieces = split::split(text)?;
        parallel::each_chunk::<R>(text, &pieces, self.threads, |chunk| self.take(text, &pieces, chunk))?;
        Ok(pieces.pieces.len() as u64)
    }

    /// Passes on the objects of a chunk.
    fn take(
        &mut self,
        text: &str,
        pieces: &Pieces<'_>,
        chunk: Chunk<'_, R::Object<'_>>,
    ) -> Result<(), JsonError> {
        for (place, decoded) in chunk.decoded {
            match decoded {
                Decoded::Ignored { api_version, kind } => {
                    let key = (api_version.into_owned(), kind.into_owned());
                    let count = self.summary.ignored.entry(key).or_default();
                    *count = count.saturating_add(1);
                }
                Decoded::Object(object) => self.hand_out(text, pieces, place, object)?,
            }
        }
        chunk.fault.map_or(Ok(()), Err)
    }

    fn hand_out(
        &mut self,
        text: &str,
        pieces: &Pieces<'_>,
        place: usize,
        object: R::Object<'_>,
    ) -> Result<(), JsonError> {
        let (kind, namespace, name) = R::key(&object);
        if let Some(piece) = pieces.pieces.get(place).copied() {
            let here = Place { file: self.files.len().saturating_sub(1), offset: start_of(text, piece.text) };
            if let Some(first) = self.seen.insert(kind, namespace, name, here) {
                let whole =
                    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") };
                let first = if first.file == here.file {
                    format!("in line {}", JsonError::at(text, first.offset.saturating_add(1), "", "").line)
                } else {
                    let file = self.files.get(first.file).map(PathBuf::as_path).unwrap_or(Path::new(""));
                    format!("in {}", file.display())
                };
                let reason = format!("{kind} {whole} occurs twice, first {first}: keep one of them");
                return Err(decode::fault(text, piece, "", reason));
            }
        }
        let count = self.summary.objects.entry(kind).or_default();
        *count = count.saturating_add(1);
        self.give(text, pieces, place, object)
    }
    /// Passes an object to the sink. A refusal by the sink is an error of that object.
    fn give(
        &mut self,
        text: &str,
        pieces: &Pieces<'_>,
        place: usize,
        object: R::Object<'_>,
    ) -> Result<(), JsonError> {
        (self.sink)(object).map_err(|reason| match pieces.pieces.get(place) {
            Some(piece) => decode::fault(text, *piece, "metadata", reason),
            None => JsonError::at(text, 1, "", reason),
        })
    }
}
