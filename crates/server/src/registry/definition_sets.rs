//! Definitions of custom kinds that come with the server (`--install-crds`). They are created at start; what is there already
//! stays as it is.

use std::fmt;
use std::str::FromStr;

use kinds::Map;
use kinds::resources::definitions::DEFINITIONS;
use portcullis_apimachinery::quote::quoted;

use super::backend::Backend;
use super::{decode, meta, write};
use crate::http::status::Status;
use crate::state::yaml;

/// The number of attempts while other servers create the same definitions.
const ATTEMPTS: usize = 30;

/// Definitions that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefinitionSet {
    /// The Machines of Cluster API and of OpenShift (NB-120).
    Machines,
}

impl DefinitionSet {
    fn manifests(self) -> &'static str {
        match self {
            Self::Machines => include_str!("../../../../deploy/serve/machines.yaml"),
        }
    }
}

impl FromStr for DefinitionSet {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "machines" => Ok(Self::Machines),
            _ => Err(format!("{} is not a set of definitions; there is: machines", quoted(name))),
        }
    }
}

impl fmt::Display for DefinitionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Machines => "machines",
        })
    }
}

/// Creates the definitions of a set that are not there.
///
/// # Errors
/// The store failed.
pub(crate) async fn install(backend: &Backend, set: DefinitionSet) -> Result<(), Status> {
    for definition in definitions(set)? {
        let name = meta::text(&definition, "name").to_owned();
        let mut attempts = 0;
        while write::find(backend, &DEFINITIONS, "", &name).await?.is_none() {
            let create = write::create(&DEFINITIONS, "", definition.clone(), write::SERVER)?;
            if write::commit(backend, vec![create]).await? {
                tracing::info!(definition = name, "installed");
                break;
            }
            attempts += 1;
            if attempts == ATTEMPTS {
                return Err(Status::internal(format_args!("too many conflicts while writing {name}")));
            }
        }
    }
    Ok(())
}

/// The definitions of a set, with their defaults.
fn definitions(set: DefinitionSet) -> Result<Vec<Map>, Status> {
    let texts = set.manifests().split("\n---\n");
    texts
        .map(|text| {
            let json = yaml::to_json(text).map_err(Status::internal)?;
            let decoded =
                kinds::decode::json(json.as_bytes(), DEFINITIONS.schema).map_err(Status::internal)?;
            let mut object = decoded.object;
            decode::default(&DEFINITIONS, &mut object);
            Ok(object)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::match_conditions;

    #[test]
    fn the_definitions_are_valid_and_have_no_unknown_field() {
        let definitions = definitions(DefinitionSet::Machines).unwrap();
        assert_eq!(definitions.len(), 2);
        for definition in definitions {
            let errors =
                kinds::resources::definitions::validate_with(&definition, None, &match_conditions::RULES);
            assert!(errors.is_empty(), "{errors:?}");
        }
        for text in DefinitionSet::Machines.manifests().split("\n---\n") {
            let json = yaml::to_json(text).unwrap();
            assert_eq!(kinds::decode::json(json.as_bytes(), DEFINITIONS.schema).unwrap().problems, []);
        }
    }

    #[test]
    fn an_unknown_set_is_refused_with_those_that_there_are() {
        assert_eq!("machines".parse(), Ok(DefinitionSet::Machines));
        let why = "pods".parse::<DefinitionSet>().unwrap_err();
        assert_eq!(why, "\"pods\" is not a set of definitions; there is: machines");
    }
}
