//! The closed list of faults in input files. `docs/errors.md` explains each with an example.

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
        "Input files must be UTF-8, with or without a byte-order mark. The position shows the first invalid byte. Convert the file, for example with `iconv -f latin1 -t utf-8`."
    Truncated "E002" "the file ends early"
        "The text stops inside a mapping, a list or a quoted string. The file was probably truncated while it was written or copied: write it again."
    Syntax "E003" "neither JSON nor YAML"
        "The text is not valid JSON or YAML at the position given. Correct it there. In a JSON Lines file the other lines are still checked."
    TooDeep "E004" "nested too deeply"
        "Mappings and lists may be nested at most 128 levels deep. No real input comes close, so the file is damaged or hostile."
    Aliases "E005" "aliases expand too far"
        "The YAML aliases of a file may expand to at most a million values, and none may contain itself. Write the values out."
    NoContent "E006" "the file is empty"
        "The file has no content, or only comments. Check that it is the right file."
    TooBig "E007" "the file is too big"
        "An input file may have at most 2 GiB. Split the requests over several runs; for any other file, check that it is the right one."
    SeveralDocuments "E008" "several documents in one file"
        "A file holds one document: remove the others. Only requests may be several JSON objects, one per line."

    WrongType "E101" "wrong type"
        "The value has the wrong type for its field, such as text in place of a number. Write numbers without quotes."
    Missing "E102" "missing field"
        "A required field is missing or null. Add it."
    Duplicate "E103" "given twice"
        "Ids of models, workflows, nodes and requests must be unique, and so must the keys of a mapping. Rename or remove one of the two."
    UnknownModel "E104" "unknown model"
        "A node refers to a model that `models` does not define. Correct the name, or add the model."
    UnknownWorkflow "E105" "unknown workflow"
        "A request refers to a workflow that `workflows` does not define. Correct the name, or add the workflow."
    UnknownNode "E106" "unknown node"
        "An edge, or a request's `node_execution_times` or `node_configs`, refers to a node that its workflow does not have. Correct the name."
    Nothing "E107" "nothing given"
        "`models`, `workflows`, each workflow's `nodes` and `requests` need at least one entry."
    UnknownChoice "E108" "unknown choice"
        "The field accepts only the values that the message lists."
    Cycle "E109" "cycle"
        "The edges of a workflow form a cycle, so its nodes could never start. Remove one of the edges that the message names."
    SelfEdge "E110" "edge from a node to itself"
        "A node cannot depend on its own output. Remove the edge."
    NoTime "E111" "no execution time"
        "The execution time of a node is the request's `node_execution_times`, else the model's `inference_time_mean`, else its `token_mean / tokens_per_second`. Here none of them is given. The fault is reported once per node, not once per request."
    Batching "E112" "malformed batching"
        "`batching.slowdown` lists pairs of batch size and slowdown. Sizes are whole numbers of at least 1 and must increase. Slowdowns start at 1.0 for size 1, never decrease, and are at most 4000."
    NoProfile "E113" "no measured costs"
        "`switch_cost: measured` needs measured load and unload times. A model lacks `unload_time_seconds`, and there is no calibration. Pass `--calibration`, or use `transfer` or `load_time`."
    BadId "E114" "empty id"
        "An id needs at least one character."
    NotOfKind "E115" "field of another kind of server"
        "A server has a field that its kind does not have. It is an error because ignoring it could change what runs where. docs/backends.md lists the fields of each kind."
    BadServer "E116" "invalid server address or GPUs"
        "An address is `http://host:port` or `https://host:port`, optionally with a path before `/v1`. It has no user, password or query: tokens come from the environment. GPUs are a number or a range. Kinds that hold one model at a time need one entry per model."
    NotApplicable "E117" "setting that does not apply"
        "A setting has no effect with this policy, mode or kind of run, such as a failure rate in a live run. It is an error because it would silently do nothing. Remove the setting, or choose the policy, mode or kind of run that uses it."

    BadPlacement "E118" "placement that the GPUs do not allow"
        "A replica of a deployment needs as many consecutive GPUs as its model, inside one server, and two replicas of a model do not share GPUs. The deployment is for the GPUs and servers of the run. Correct `gpus`, or make the deployment again with `gswarm deploy`."
    NoRoom "E119" "models that do not fit together"
        "The models of a deployment that share a GPU have to fit into its memory together, with room for one execution. Remove one of the replicas, or put it elsewhere."
    NoReplica "E120" "model without a replica"
        "The requests use a model that the deployment puts nowhere. A deployment never loads anything later: give the model a replica."
    BrokenGroup "E121" "placement against its groups"
        "The replicas of a deployment do not keep to its `groups`. A server that holds one model of a group in `together` holds all of them, and no GPU holds two models of a group in `apart`. Change the replicas or the group."

    NotPositive "E201" "not above zero"
        "The number must be above zero."
    Negative "E202" "below zero"
        "The number must be zero or greater."
    NotFinite "E203" "not a finite number"
        "Infinity and NaN are not valid durations, sizes or rates."
    TooLarge "E204" "number too large"
        "The number, or a time computed from it, exceeds the limit in the message. Check its unit first: times are seconds and sizes are GB, not milliseconds or bytes. Times go up to 3.2e9 seconds (about 100 years), sizes up to 1e9 GB, rates and counts of tokens up to 1e12, GPUs of a cluster up to 1,048,576, batches up to 65,536."
    NotWhole "E205" "not a whole number"
        "The field takes whole numbers only."

    BadTimestamp "E301" "bad timestamp"
        "A timestamp is ISO 8601, such as `2024-01-01T10:00:00.25` with an optional `Z` or offset (default: UTC), or a number of seconds without quotes."
    MixedTimestamps "E302" "numbers and dates mixed"
        "The timestamps of a file must be all dates (ISO 8601) or all numbers of seconds. Numbers count from an arbitrary zero, so they cannot be compared with dates."
    NoTimestamp "E303" "missing timestamp"
        "In online mode a request arrives at its timestamp, so every request needs one. Add it, or run in offline mode."

    NotATable "E501" "not a table"
        "A table is Parquet, or CSV with column names in its first row. The file is neither, or damaged."
    Ragged "E502" "row of a different length"
        "Every row of a CSV table needs as many cells as there are column names. Quote cells that contain commas."
    TooFewRows "E503" "too few rows"
        "Training needs at least 50 rows: some are held out for the test, and the rest are cross-validated. Collect more runs."
    ConstantTarget "E504" "the target never changes"
        "The target column has the same value in every row, so there is nothing to learn. Choose another target, or check how the table was made."
    Leak "E505" "a feature reveals the target"
        "A feature is a copy of the target, or orders the rows exactly as the target does. It was probably computed from the target, and is not known before a run. Omit it."
    NoFeatures "E506" "no features"
        "There is no column besides the target, or every other column is constant."
    NotAModel "E511" "not a model file"
        "`gswarm train --out FILE` writes model files. This is another kind of file."
    ModelVersion "E512" "model file of another version"
        "Another version of gswarm wrote the file, in a different format. Train again."
    ModelDamaged "E513" "damaged model file"
        "The checksum does not match the content: the file was truncated or changed. Copy it again, or train again."
    OtherFeatures "E514" "features differ from the model's"
        "A model needs the columns it was trained on, with the same types. The message names columns that are missing or have another type, or the target if the model predicts something else."
    JournalVersion "E521" "journal of another version"
        "Another version of gswarm wrote this journal or service state, in a different format. It is not damaged. Continue with the version that wrote it, or start again in another folder."
    JournalDamaged "E522" "damaged journal"
        "This journal or service state holds something that gswarm never wrote: a checksum does not match, or SQLite cannot read it. Nothing in it is used. Restore a copy (the file together with its `-wal` and `-shm` files), or start again in another folder. Check the disk."

    OtherKind "E601" "not a file of this kind"
        "The file does not match the KIND of `gswarm import KIND`. The message says what was expected and what the file looks like."
    Inexpressible "E602" "cannot be expressed"
        "The workflow contains something that gswarm cannot express. It is an error because dropping it would change what runs."
    NeedsChoice "E603" "a choice is needed"
        "A branch needs `--choose NODE=CASE` or `--branch NODE=PROBABILITY`, an iteration `--count NODE=N`: the file alone does not determine what runs. Name nodes by id, or by title if it is unique."
    NoSuchPlace "E604" "a flag names something unknown"
        "A flag names a node, case, class or workflow that the file does not have."
    ContainsItself "E605" "a subgraph contains itself"
        "A subgraph contains itself, directly or through others, so it cannot be expanded."
    Expands "E606" "expands too far"
        "After expanding subgraphs, iterations and branches, a workflow may have 10,000 nodes, a file a million links, and an app 64 paths through its branches."

    ServerSilent "E701" "server does not answer"
        "No server that has the model answered within the time of `--server-patience`. Start the server, or correct its `url` in the backends file. The message names the address and the last error."
    ServerStranger "E702" "not a server of this kind"
        "Something answers at the address, but not as a server of the given `kind` does. Another program may use the port. Correct `kind` or `url`."
    ModelNotListed "E703" "model unknown to its server"
        "The server does not list the model. Give the name that the server uses with `as`, or start the server with the model."
    NoSleep "E704" "server without sleep endpoints"
        "gswarm loads and unloads the models of this kind of server by waking them and putting them to sleep, and the server has no such endpoints. Start vLLM with `VLLM_SERVER_DEV_MODE=1` and `--enable-sleep-mode`, SGLang with `--enable-memory-saver`."
    SleepOff "E705" "server keeps its memory while asleep"
        "The server has the sleep endpoints, but sleep mode is off: it reports that it sleeps, but frees nothing. Models that share its GPUs would not fit. Start vLLM with `--enable-sleep-mode`, SGLang with `--enable-memory-saver`."

    UnknownField "W401" "unknown field"
        "The field is unknown and was ignored. If it looks like a typing error, the hint names the most similar field."
    EdgeByOutput "W402" "edge names an output"
        "The edge refers to an output rather than a node. Exactly one node has an output of that name, and that node is used."
    DoubleEdge "W403" "edge given twice"
        "Two edges join the same two nodes. One is kept."
    LeftOut "W404" "findings not shown"
        "The file has more than 10,000 errors or warnings; the rest are counted but not listed. Fix those shown and try again."

    Unconnected "W411" "nodes without edges"
        "Nodes without edges start at once when a request arrives. Add edges where one node needs the output of another."
    NoBatching "W412" "language model without batching"
        "Without `batching` a model serves one call at a time. Real servers batch the calls of language models, so simulated times would be many times too long. Add a curve, or measure one with `gswarm calibrate`."
    LongTime "W413" "implausibly long time"
        "A load or an execution takes more than an hour. Times are seconds; a number in milliseconds is a thousand times too large."
    LongSpan "W414" "arrivals over months"
        "First and last arrival are more than a month apart. Numeric timestamps are seconds, not milliseconds."
    TooBigForGpus "W415" "model larger than its GPUs"
        "The weights and one execution need more memory than the model's GPUs have, or the model needs more GPUs than the cluster has. Runs that count memory (`residency: memory` or `memory_gb_per_slot`) are refused; other runs are not realistic. Raise `gpus_required`; a model that is larger than a whole server needs GPUs with more memory, or quantised weights."
    UnusedDeviation "W416" "unused standard deviation"
        "A standard deviation needs the mean that it belongs to: `inference_time_std` with `inference_time_mean`, `token_std` with `token_mean` and `tokens_per_second`."
    LargerOnServer "W421" "model larger than configured"
        "The server says that the model takes more memory than its `memory_gb`. Correct `memory_gb`, or models that should fit together will not."
    SleepUnneeded "W422" "sleep mode is off"
        "Sleep mode is off, so the server frees no memory when it sleeps. It has its GPUs to itself, so the run is not affected."
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
