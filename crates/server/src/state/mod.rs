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
use std::ops::Range;
use std::path::{Path, PathBuf};

use policy::objects::Kind;
use portcullis_apimachinery::json::JsonError;

mod beside;
mod decode;
mod documents;
mod error;
mod files;
pub mod manifest;
mod parallel;
mod places;
mod seen;
mod source;
mod split;
mod tar;
mod texts;
pub(crate) mod yaml;

pub use beside::{Beside, KubeletFile, KubeletForm};
pub use decode::{ForAudit, ForDecisions, Reading};
pub use documents::{Document, Fault, documents, read_documents};
pub use error::StateError;
pub use files::{Format, MAX_ARCHIVE_BYTES, MAX_FILE_BYTES, MAX_YAML_BYTES, TakeFile};
pub use places::line_of;
pub use source::{Source, SourceError};
pub use tar::Writer as TarWriter;
pub use yaml::to_json as yaml_to_json;

use decode::Decoded;
use seen::{Place, Seen};
use split::{Pieces, start_of};
use texts::each_text;

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
        let count = pieces.pieces.len();
        let decode = |places| decode_chunk::<R>(text, &pieces, places);
        parallel::each_chunk(count, self.threads, decode, |chunk| self.take(text, &pieces, chunk))?;
        Ok(count as u64)
    }

    /// Passes on the objects of a chunk.
    fn take(
        &mut self,
        text: &str,
        pieces: &Pieces<'_>,
        chunk: Chunk<Decoded<'_, R::Object<'_>>>,
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

/// The decoded pieces of one part of a file, each with its index, up to the first error.
struct Chunk<O> {
    decoded: Vec<(usize, O)>,
    fault: Option<JsonError>,
}

fn decode_chunk<'t, R: Reading>(
    text: &str,
    pieces: &'t Pieces<'t>,
    places: Range<usize>,
) -> Chunk<Decoded<'t, R::Object<'t>>> {
    let mut decoded = Vec::with_capacity(places.len());
    for (place, piece) in places.clone().zip(pieces.pieces.get(places).unwrap_or_default()) {
        match decode::decode::<R>(text, pieces, *piece) {
            Ok(object) => decoded.push((place, object)),
            Err(fault) => return Chunk { decoded, fault: Some(fault) },
        }
    }
    Chunk { decoded, fault: None }
}
