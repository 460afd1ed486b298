//! The closed list of what can be wrong with an input file. `docs/errors.md` explains each with an example.

named! {
    /// How bad a finding is.
    pub enum Severity {
        /// The input cannot be used.
        Error = "error",
        /// The input can be used; the finding says what was assumed.
        Warning = "warning",
    }
}

macro_rules! codes {
    ($($name:ident $code:literal $title:literal $help:literal)*) => {
        /// What is wrong with an input. Codes that start with `E` are errors, those that start with `W` warnings.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(
                #[doc = concat!($code, ": ", $title, ".")]
                $name,
            )*
        }

        impl Code {
            /// Every code, in the order of the documentation.
            pub const ALL: &'static [Code] = &[$(Code::$name),*];

            /// The short name that diagnostics show, such as `E104`.
            #[must_use]
            pub fn code(self) -> &'static str {
                match self { $(Code::$name => $code,)* }
            }

            /// A few words on what is wrong.
            #[must_use]
            pub fn title(self) -> &'static str {
                match self { $(Code::$name => $title,)* }
            }

            /// A paragraph on what is wrong and what to do about it.
            #[must_use]
            pub fn help(self) -> &'static str {
                match self { $(Code::$name => $help,)* }
            }
        }
    };
}

codes! {
    NotUtf8 "E001" "not UTF-8"
        "Input files are UTF-8 text, with or without a byte-order mark. The position is that of the first byte that cannot be part of UTF-8; convert the file, for example with `iconv -t utf-8`."
    Truncated "E002" "the file ends early"
        "The text stops inside a mapping, a list or a quoted string. The file was probably cut off while it was written or copied; write it again."
    Syntax "E003" "neither JSON nor YAML"
        "The text breaks the rules of the format that it starts in. In a JSON Lines file the other lines are still checked."
    TooDeep "E004" "nested too deeply"
        "Mappings and lists may be nested 128 levels deep. No real input comes near that; the file is damaged or hostile."
    Aliases "E005" "aliases expand too far"
        "The YAML aliases of a file may stand for a million values in all, and none may contain itself. Write the values out, or share less."
    NoContent "E006" "the file is empty"
        "The file has no content, or only comments."
    TooBig "E007" "the file is too big"
        "One input file may have up to 2 GiB of text."
    SeveralDocuments "E008" "several documents in one file"
        "A file holds one document. Only requests may be given as several JSON objects, one a line."

    WrongType "E101" "wrong type"
        "A value is of another type than the field needs, such as text where a number belongs. Numbers are written without quotes."
    Missing "E102" "missing field"
        "A field that has no default is absent, or null."
    Duplicate "E103" "given twice"
        "Ids of models, workflows, nodes and requests are unique, and so are the keys of a mapping. Which of the two was meant cannot be known."
    UnknownModel "E104" "unknown model"
        "A node names a model that is no key of `models`."
    UnknownWorkflow "E105" "unknown workflow"
        "A request names a workflow that is no key of `workflows`."
    UnknownNode "E106" "unknown node"
        "An edge, or a request's `node_execution_times` or `node_configs`, names a node that the workflow does not have."
    Nothing "E107" "nothing given"
        "`models`, `workflows`, each workflow's `nodes` and `requests` need at least one entry."
    UnknownChoice "E108" "unknown choice"
        "The field takes one of a few words, which the message lists."
    Cycle "E109" "cycle"
        "The nodes of a workflow wait for one another in a circle, so none of them could ever start. Take out one of the edges that the message names."
    SelfEdge "E110" "edge from a node to itself"
        "A node cannot wait for its own output. Take the edge out."
    NoTime "E111" "no execution time"
        "The execution time of a node is the request's `node_execution_times`, else the model's `inference_time_mean`, else its `token_mean / tokens_per_second`. Here none of them is given. It is reported once a node, not once a request."
    Batching "E112" "malformed batching"
        "`batching.slowdown` lists pairs of batch size and slowdown: sizes are whole, rise strictly and start at 1 or above; slowdowns start at 1.0 for size 1, never fall, and stay at 4000 or below."
    NoProfile "E113" "no measured costs"
        "`switch_cost: measured` goes by what loads and unloads were measured to take. Some model has no `unload_time_seconds`, and no file of `gswarm calibrate` was given. Give `--calibration`, or use `transfer` or `load_time`."
    BadId "E114" "empty id"
        "An id is a piece of text of at least one character."
    NotOfKind "E115" "field of another kind of server"
        "In a file of servers every field has to be one that the server's kind has: what is not understood could change what runs where. docs/backends.md lists the fields of each kind."
    BadServer "E116" "server that cannot be reached like this"
        "An address is `http://host:port` or `https://host:port`, with a path before `/v1` where there is one, and with no user, password or query: tokens come from the environment. GPUs are one number or a range. A server that holds one model serves one model."
    NotApplicable "E117" "setting that does not apply"
        "A run is told something that its policy, its mode or its kind has no use for, such as a failure rate in a live run. Whoever sets it expects it to do something, so the run is refused. Remove the setting, or choose the policy, mode or kind of run that uses it."

    NotPositive "E201" "not above zero"
        "The number has to be above zero."
    Negative "E202" "below zero"
        "The number has to be zero or above."
    NotFinite "E203" "not a finite number"
        "Infinity and NaN are no quantities that can be scheduled with."
    TooLarge "E204" "number too large"
        "The number, or the time that follows from it, is above the limit that the message names. Check its unit first: seconds and GB are meant, not milliseconds or bytes. Times go up to 3.2e9 seconds (about 100 years), sizes up to 1e9 GB, rates and counts of tokens up to 1e12, GPUs of a cluster up to 1,048,576, batches up to 65,536."
    NotWhole "E205" "not a whole number"
        "The number counts things, so it cannot have a fraction."

    BadTimestamp "E301" "bad timestamp"
        "A timestamp is ISO 8601, such as `2024-01-01T10:00:00.25` with an optional `Z` or offset (without one it is taken as UTC), or a number of seconds written without quotes."
    MixedTimestamps "E302" "numbers and dates mixed"
        "The timestamps of a file are all ISO 8601 or all numbers of seconds: a number counts from a zero that only its file knows, so it cannot be compared with a date."
    NoTimestamp "E303" "missing timestamp"
        "In online mode a request arrives at its timestamp, so every request needs one. In offline mode none does."

    NotATable "E501" "no table"
        "A table is CSV with a row of column names first, or Parquet. The file is neither, or damaged."
    Ragged "E502" "row of another length"
        "Every row of a CSV table has as many cells as the first row has column names. A cell that holds a comma stands in quotes."
    TooFewRows "E503" "too few rows"
        "What is learned is tested on rows that were kept back, and cross-validated: that needs some dozens of rows at least."
    ConstantTarget "E504" "the target never changes"
        "Every row has the same value in the target column, so there is nothing to learn. A label that is a constant is a fault of whatever made the table."
    Leak "E505" "a feature gives the target away"
        "A feature is a copy of the target, or rises and falls with it without exception: it was computed from the target, and will not be known before the run. Leave it out."
    NoFeatures "E506" "no features"
        "There is no column but the target to learn from, or every one of them holds a single value."
    NotAModel "E511" "no model file"
        "Model files are written by `gswarm train --out FILE`. This file is of another kind."
    ModelVersion "E512" "model file of another version"
        "The file was written by a version of gswarm that lays model files out in another way. Train again."
    ModelDamaged "E513" "damaged model file"
        "The checksum does not fit the content: the file was cut off or changed. Copy it again, or train again."
    OtherFeatures "E514" "other features than the model's"
        "A model predicts from the columns that it was trained on, of the same kinds. The message names those that are missing or of another kind, or what the model predicts where something else is asked for."
    JournalVersion "E521" "journal of another version"
        "The journal of a live run, or the requests of a service, were written by a version of gswarm that keeps them in another way. They are not damaged. Go on with the version that wrote them, or begin anew in another folder."

    OtherKind "E601" "not a file of this kind"
        "`gswarm import KIND` was given a file that is of another kind. The message says what was looked for and what the file looks like."
    Inexpressible "E602" "cannot be expressed"
        "The workflow has something that gswarm has no counterpart for. It is refused by name: leaving it out in silence would change what runs."
    NeedsChoice "E603" "a choice is needed"
        "A branch needs `--choose NODE=CASE` or `--branch NODE=PROBABILITY`, an iteration `--count NODE=N`: the file alone does not say what runs. Nodes are named by their id, or by their title where no other node has it."
    NoSuchPlace "E604" "a flag names nothing"
        "A flag names a node, case, class or workflow that the file does not have."
    ContainsItself "E605" "a subgraph contains itself"
        "A subgraph stands inside itself, straight or by others: written out it would have no end."
    Expands "E606" "expands too far"
        "Written out, with subgraphs, iterations and branches, a workflow may have 10,000 nodes, a file a million links, and an app 64 ways through its branches."

    UnknownField "W401" "unknown field"
        "The field is not one that is read here. It was left out; if it is a slip of the pen the hint names the field that it resembles."
    EdgeByOutput "W402" "edge names an output"
        "The endpoint of the edge is no node's id, but exactly one node has an output of that name. That node is taken to be meant."
    DoubleEdge "W403" "edge given twice"
        "The same two nodes are joined by two edges. One is kept."
    LeftOut "W404" "findings left out"
        "After 10,000 errors, or as many warnings, in a file the others are counted but not kept. Mend those that are shown and read the file again."

    Unconnected "W411" "nodes without edges"
        "Nodes that no edge joins to the rest of their workflow start as soon as a request arrives, all at once. Add edges where one node needs the output of another."
    NoBatching "W412" "language model without batching"
        "Without `batching` a model serves one call at a time. Model servers batch calls of language models, so times would come out many times too long. Add a curve, or measure one with `gswarm calibrate`."
    LongTime "W413" "time of hours"
        "A load or an execution takes more than an hour. Times are seconds; a number in milliseconds is a thousand times too large."
    LongSpan "W414" "arrivals over months"
        "From the first to the last arrival there is more than a month. Timestamps that are numbers are seconds, not milliseconds."
    TooBigForGpus "W415" "model larger than its GPUs"
        "The weights and one execution need more memory than the model's GPUs have, or the model needs more GPUs than the cluster has. A run that counts memory (`residency: memory`, or `memory_gb_per_slot`) is refused; any other is not realistic. Raise `gpus_required`; a model that is larger than a whole server needs GPUs with more memory, or quantised weights."
    UnusedDeviation "W416" "standard deviation that nothing uses"
        "A standard deviation is used with the mean that it belongs to: `inference_time_std` with `inference_time_mean`, `token_std` with `token_mean` and `tokens_per_second`."
}

impl Code {
    /// Whether the code is an error or a warning.
    #[must_use]
    pub fn severity(self) -> Severity {
        if self.code().starts_with('W') { Severity::Warning } else { Severity::Error }
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.code())
    }
}
