//! What a state has beside objects: the manifest of an archive, the version of the server, and the configuration of kubelets
//! (AU-14, AU-15, AU-20). A file is one of these by its name and what is in it, so that no object is lost.

use std::path::{Path, PathBuf};

use portcullis_apimachinery::json::{self, JsonError};
use serde::Deserialize;

use super::error::StateError;
use super::files::{Format, is_flags, is_of_kubelets};
use super::manifest::{API_VERSION, KIND, MANIFEST, Manifest, twice};
use super::yaml;

/// The name of the file with the answer of `/version`.
const VERSION: &str = "version.json";

/// What is beside objects, in the order of the files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    /// The manifests of archives.
    pub manifests: Vec<Manifest>,
    /// The `gitVersion` of answers of `/version`.
    pub versions: Vec<String>,
    /// The configuration of kubelets.
    pub kubelets: Vec<KubeletFile>,
}

/// A file with the configuration of one kubelet, as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeletFile {
    /// The node: the name of the file without its extension.
    pub node: String,
    /// What is in it.
    pub form: KubeletForm,
    /// The file.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
}

/// What is in the file of a kubelet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KubeletForm {
    /// A KubeletConfiguration, or the answer of `/configz`, in YAML or JSON.
    Configuration,
    /// A command line.
    Flags,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    git_version: String,
}

impl Beside {
    /// Takes a file that has no objects; returns the text of another one.
    ///
    /// # Errors
    /// It is a manifest of another version, or a damaged one.
    pub(super) fn take(
        &mut self,
        path: &Path,
        format: Format,
        text: String,
    ) -> Result<Option<String>, StateError> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        match name {
            MANIFEST if type_of(&text).1 == KIND => self.manifests.push(manifest(path, &text)?),
            VERSION if type_of(&text).1.is_empty() => match serde_json::from_str::<Version>(&text) {
                Ok(version) => self.versions.push(version.git_version),
                Err(_) => return Ok(Some(text)),
            },
            _ if is_flags(path) => self.add_kubelet(path, KubeletForm::Flags, text),
            _ if is_of_kubelets(path) && is_configuration(format, &text) => {
                self.add_kubelet(path, KubeletForm::Configuration, text);
            }
            _ => return Ok(Some(text)),
        }
        Ok(None)
    }

    fn add_kubelet(&mut self, path: &Path, form: KubeletForm, text: String) {
        let node = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        self.kubelets.push(KubeletFile { node, form, path: path.to_owned(), text });
    }
}

/// The `apiVersion` and the `kind`, empty without one.
fn type_of(text: &str) -> (String, String) {
    let Ok(found) = json::type_meta(text.trim_ascii()) else { return Default::default() };
    let owned = |word: Option<std::borrow::Cow<'_, str>>| word.unwrap_or_default().into_owned();
    (owned(found.api_version), owned(found.kind))
}

fn manifest(path: &Path, text: &str) -> Result<Manifest, StateError> {
    let (api_version, _) = type_of(text);
    if api_version != API_VERSION {
        let reason =
            format!("an archive of version {api_version:?}: this version of portcullis reads {API_VERSION}");
        return Err(StateError::whole(path, reason));
    }
    let manifest: Manifest = serde_json::from_str(text)
        .map_err(|error| StateError::of(path, JsonError::of_decoding(text, &error)))?;
    match twice(&manifest) {
        Some(entry) => Err(StateError::whole(path, format!("names {} twice", entry.resource))),
        None => Ok(manifest),
    }
}

/// Whether a text is a KubeletConfiguration, or the answer of `/configz`.
fn is_configuration(format: Format, text: &str) -> bool {
    #[derive(Deserialize)]
    struct Configz {
        #[serde(rename = "kubeletconfig")]
        _config: serde::de::IgnoredAny,
    }
    let json = match format {
        Format::Json => None,
        Format::Yaml => yaml::to_json(text).ok(),
    };
    let json = json.as_deref().unwrap_or(text).trim_ascii();
    type_of(json).1 == "KubeletConfiguration" || serde_json::from_str::<Configz>(json).is_ok()
}
