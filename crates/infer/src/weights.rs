//! A model in host memory: its tensors, read once, and its tokenizer, parsed.

use crate::config::ModelConfig;
use crate::error::{Error, Result};
use crate::files;
use crate::text::chat::ChatTemplate;
use crate::text::tokenizer::TextTokenizer;
use candle_core::{DType, Device, Tensor};
use safetensors::Dtype;
use safetensors::tensor::Metadata;
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Longest header that is read; real ones have some kilobytes.
const MAX_HEADER_BYTES: u64 = 100 << 20;

/// A model in host memory. Tensors are held as 32-bit floats, which is what the CPU computes with, whatever the files
/// have. Clones and instances share them.
#[derive(Clone)]
pub struct Weights {
    folder: PathBuf,
    config: ModelConfig,
    tensors: Arc<HashMap<String, Tensor>>,
    tokenizer: Arc<TextTokenizer>,
    chat: Arc<ChatTemplate>,
    bytes: u64,
}

impl Weights {
    /// Reads a model's folder. One tensor at a time is read and converted, so that no more than the model and its
    /// largest tensor is ever in memory.
    pub fn load(folder: impl AsRef<Path>) -> Result<Weights> {
        let folder = folder.as_ref();
        let config = ModelConfig::read(folder)?;
        let tokenizer = TextTokenizer::read(&folder.join("tokenizer.json"), config.vocab_size())?;
        let chat = ChatTemplate::read(folder)?;
        let mut tensors = HashMap::new();
        for path in tensor_files(folder)? {
            read_tensors(&path, &mut tensors)?;
        }
        let bytes =
            tensors.values().map(|tensor| (tensor.elem_count() * tensor.dtype().size_in_bytes()) as u64);
        let bytes = bytes.sum();
        Ok(Weights {
            folder: folder.to_path_buf(),
            config,
            tensors: Arc::new(tensors),
            tokenizer: Arc::new(tokenizer),
            chat: Arc::new(chat),
            bytes,
        })
    }

    /// What a folder holds, as far as can be told without reading the tensors: a file that is missing, damaged or cut off is
    /// found here rather than at the first load.
    pub(crate) fn inspect(folder: &Path) -> Result<ModelConfig> {
        let config = ModelConfig::read(folder)?;
        files::open(&folder.join("tokenizer.json"))?;
        for path in tensor_files(folder)? {
            open_tensors(&path)?;
        }
        Ok(config)
    }

    /// What the model is.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Where it was read from.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Bytes of its tensors in host memory.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Its tokenizer.
    pub fn tokenizer(&self) -> &Arc<TextTokenizer> {
        &self.tokenizer
    }

    /// Its chat template.
    pub fn chat(&self) -> &Arc<ChatTemplate> {
        &self.chat
    }

    /// Whether there is a tensor of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// A tensor, which has to be there and of this shape.
    pub(crate) fn tensor(&self, name: &str, shape: &[usize]) -> Result<Tensor> {
        let path = || self.folder.join("model.safetensors");
        let Some(tensor) = self.tensors.get(name) else {
            return Err(Error::invalid(&path(), format!("the tensor {name} is missing")));
        };
        if tensor.dims() != shape {
            let reason =
                format!("the tensor {name} is {:?}, where config.json asks for {shape:?}", tensor.dims());
            return Err(Error::invalid(&path(), reason));
        }
        Ok(tensor.clone())
    }
}

/// A matrix with its numbers ordered for products: the same matrix, stored by columns. Two rows then take a third of the
/// time that one takes with the order of the files, because several outputs are computed at once.
pub(crate) fn for_products(matrix: &Tensor) -> candle_core::Result<Tensor> {
    matrix.t()?.contiguous()?.t()
}

/// The one file, or those that the index names.
fn tensor_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let (single, index) = (folder.join("model.safetensors"), folder.join("model.safetensors.index.json"));
    if single.exists() || !index.exists() {
        return Ok(vec![single]);
    }
    let json = files::read_json(&index)?;
    let map = json.get("weight_map").and_then(Value::as_object);
    let map = map.ok_or_else(|| Error::invalid(&index, "weight_map is missing"))?;
    let names: BTreeSet<&str> = map.values().map(|value| value.as_str().unwrap_or_default()).collect();
    let path = |name: &str| match Path::new(name).file_name() {
        // The name of a file beside the index, and nothing else.
        Some(plain) if plain == name && name.ends_with(".safetensors") => Ok(folder.join(name)),
        _ => Err(Error::invalid(&index, format!("`{name}` is not the name of a safetensors file"))),
    };
    names.into_iter().map(path).collect()
}

/// A file of tensors at the first of them, and what it says that it holds.
fn open_tensors(path: &Path) -> Result<(File, Metadata)> {
    let (mut file, length) = files::open(path)?;
    let mut size = [0; 8];
    read_exact(&mut file, &mut size, path)?;
    let header_length = u64::from_le_bytes(size);
    if header_length > MAX_HEADER_BYTES || header_length > length - 8 {
        return Err(Error::invalid(
            path,
            "its header gives a length beyond the end of the file; is it truncated?",
        ));
    }
    let mut header = vec![0; header_length as usize];
    read_exact(&mut file, &mut header, path)?;
    // Parsing checks that offsets leave no gap and agree with types and shapes.
    let header: Metadata = serde_json::from_slice(&header)
        .map_err(|error| Error::invalid(path, format!("its header is damaged: {error}")))?;
    let data = header.data_len() as u64;
    if data != length - 8 - header_length {
        let found = length - 8 - header_length;
        let reason = format!("{found} bytes of tensors, but its header gives {data}; is it truncated?");
        return Err(Error::invalid(path, reason));
    }
    Ok((file, header))
}

fn read_tensors(path: &Path, tensors: &mut HashMap<String, Tensor>) -> Result<()> {
    let (mut file, header) = open_tensors(path)?;
    for name in header.offset_keys() {
        let Some(info) = header.info(&name) else { continue };
        let Some(dtype) = float_type(info.dtype) else {
            skip_or_refuse(&mut file, path, &name, info)?;
            continue;
        };
        let mut bytes = vec![0; info.data_offsets.1 - info.data_offsets.0];
        read_exact(&mut file, &mut bytes, path)?;
        let tensor =
            Tensor::from_raw_buffer(&bytes, dtype, &info.shape, &Device::Cpu)?.to_dtype(DType::F32)?;
        // Tables are looked up by row; all other matrices are only multiplied with.
        let is_table = name.contains("embed");
        let tensor = if tensor.rank() == 2 && !is_table { for_products(&tensor)? } else { tensor };
        tensors.insert(name, tensor);
    }
    Ok(())
}

fn float_type(dtype: Dtype) -> Option<DType> {
    match dtype {
        Dtype::F32 => Some(DType::F32),
        Dtype::F16 => Some(DType::F16),
        Dtype::BF16 => Some(DType::BF16),
        Dtype::F64 => Some(DType::F64),
        _ => None,
    }
}

/// Whole numbers are tables that older files carry along (BERT's position ids); other types are quantised weights.
fn skip_or_refuse(
    file: &mut File,
    path: &Path,
    name: &str,
    info: &safetensors::tensor::TensorInfo,
) -> Result<()> {
    if !matches!(info.dtype, Dtype::I64 | Dtype::I32) {
        return Err(Error::unsupported(path, format!("the type {:?} of the tensor {name}", info.dtype)));
    }
    let length = (info.data_offsets.1 - info.data_offsets.0) as u64;
    let copied = std::io::copy(&mut file.take(length), &mut std::io::sink());
    copied.map(drop).map_err(|error| Error::file(path, error))
}

fn read_exact(file: &mut File, into: &mut [u8], path: &Path) -> Result<()> {
    file.read_exact(into).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => Error::invalid(path, "it ends too early"),
        _ => Error::file(path, error),
    })
}
