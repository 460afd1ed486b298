use crate::support::{features, runs, small};
use gswarm_core::input::Code;
use gswarm_learn::{Column, Predictor, PredictorKind, Table, Values, encode, fit};
use std::fs;

fn predictor() -> Predictor {
    fit(&runs(300, 0.2, 21), "seconds", &features(), &small(PredictorKind::GradientBoosting)).unwrap()
}

fn code(bytes: &[u8]) -> Code {
    Predictor::from_bytes("m.model", bytes).expect_err("a fault")[0].code
}

#[test]
fn a_model_predicts_the_same_bits_after_loading() {
    let folder = tempfile::tempdir().unwrap();
    let (training, test) = (runs(400, 0.3, 22), runs(500, 0.3, 23));
    for kind in PredictorKind::ALL {
        let saved = fit(&training, "seconds", &features(), &small(kind)).unwrap();
        let path = folder.path().join(format!("{}.model", kind.name()));
        saved.save(&path).unwrap();
        let loaded = Predictor::load(&path).unwrap();
        let rows = encode(loaded.features(), &test).unwrap();
        let bits = |predictor: &Predictor| -> Vec<[u64; 3]> {
            let predictions = predictor.predict(&rows).into_iter();
            predictions
                .map(|one| [one.mean, one.scale, predictor.quantile(&one, 0.9)].map(f64::to_bits))
                .collect()
        };
        assert_eq!(bits(&loaded), bits(&saved), "{}", kind.name());
        assert_eq!((loaded.target(), loaded.kind()), ("seconds", kind));
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), PredictorKind::ALL.len());
}

#[test]
fn other_files_other_versions_and_damage_are_told_apart() {
    let good = predictor().to_bytes().unwrap();
    assert!(Predictor::from_bytes("m.model", &good).is_ok());
    assert_eq!(code(b""), Code::NotAModel);
    assert_eq!(code(b"size,seconds\n1,2\n"), Code::NotAModel);
    let mut newer = good.clone();
    newer[8] += 1;
    assert_eq!(code(&newer), Code::ModelVersion);
    assert_eq!(code(&good[..10]), Code::ModelDamaged);
    assert_eq!(code(&good[..good.len() - 1]), Code::ModelDamaged);
    let mut longer = good.clone();
    longer.push(0);
    assert_eq!(code(&longer), Code::ModelDamaged);
    // Every byte behind the version counts.
    for place in (12..good.len()).step_by(37) {
        let mut damaged = good.clone();
        damaged[place] ^= 0x10;
        assert_eq!(code(&damaged), Code::ModelDamaged, "byte {place}");
    }
    // Even content with a fitting checksum has to be a model.
    let mut forged = good[..24].to_vec();
    let body = vec![0xff; 100];
    forged[12..16].copy_from_slice(&crc32fast::hash(&body).to_le_bytes());
    forged[16..24].copy_from_slice(&(body.len() as u64).to_le_bytes());
    forged.extend(body);
    assert_eq!(code(&forged), Code::ModelDamaged);
}

#[test]
fn a_table_with_other_features_is_refused() {
    let predictor = predictor();
    let renamed =
        Table::new("t", vec![Column { name: "Size".to_owned(), values: Values::Numbers(vec![1.0]) }]);
    let found = encode(predictor.features(), &renamed).unwrap_err();
    assert_eq!(found.iter().map(|fault| fault.code).collect::<Vec<_>>(), [Code::OtherFeatures; 2]);
    assert!(found[0].hint.as_ref().unwrap().contains("`Size`"));
    let text = Table::read("t.csv", b"size,device\nbig,cpu\nsmall,cpu\n".to_vec()).unwrap();
    let found = encode(predictor.features(), &text).unwrap_err();
    assert!(found[0].message.contains("held numbers"), "{}", found[0].message);
}

#[test]
fn what_cannot_be_written_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let predictor = predictor();
    // A folder of that name cannot be replaced by a file, and the file beside it goes.
    let taken = folder.path().join("taken.model");
    fs::create_dir(&taken).unwrap();
    fs::write(taken.join("inside"), b"x").unwrap();
    assert!(predictor.save(&taken).is_err());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    assert!(predictor.save(&folder.path().join("none/m.model")).is_err());
    // A model that is there stays as it was until the new one is whole.
    let path = folder.path().join("m.model");
    predictor.save(&path).unwrap();
    predictor.save(&path).unwrap();
    assert!(Predictor::load(&path).is_ok());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}
