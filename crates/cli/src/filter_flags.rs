//! The flags of filtered lists. kube-apiserver has none of them.

use clap::Args;
use portcullis_server::api::filter_lists::FilterLists;

/// See the module.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Filtered lists")]
pub struct FilterFlags {
    /// Answer a list or watch of a collection that the caller may not read as a whole with the objects that it may get by name,
    /// instead of 403, if the request has the header "Portcullis-Filter: true". Whoever may get objects then learns their names
    #[arg(long, value_name = "BOOL", default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    filter_lists: bool,

    /// Groups whose members get filtered lists without the header, comma separated. Repeatable. Members can refuse them with
    /// "Portcullis-Filter: false"
    #[arg(long, value_name = "GROUPS", value_delimiter = ',', requires = "filter_lists")]
    filter_lists_for: Vec<String>,
}

impl FilterFlags {
    /// The callers that get filtered lists.
    pub fn filter_lists(&self) -> FilterLists {
        match self.filter_lists {
            true => FilterLists::on(self.filter_lists_for.clone()),
            false => FilterLists::default(),
        }
    }
}
