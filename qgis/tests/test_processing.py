"""The algorithms, run by Processing on a repository of the real command."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).parent))

import support
from qgis.core import (
    QgsApplication,
    QgsProcessingContext,
    QgsProcessingException,
    QgsProcessingFeedback,
    QgsSettings,
    QgsVectorLayer,
)
from support import edit, environment, load_plugin, repository, run

plugin = load_plugin()


class Stopped(QgsProcessingFeedback):
    """A person who cancels at once."""

    def isCanceled(self) -> bool:
        return True


class Algorithms(unittest.TestCase):
    """QGIS with the plugin's algorithms and no window, as `qgis_process` loads it."""

    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(dir=support.HOME))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        patch = mock.patch.dict(os.environ, environment())
        patch.start()
        self.addCleanup(patch.stop)
        QgsSettings().clear()
        QgsSettings().setValue("havasu_vc/program", support.PROGRAM)
        self.plugin = plugin.classFactory(None)
        self.plugin.initProcessing()
        self.addCleanup(self.plugin.unload)

    def do(self, name: str, **given: Any) -> dict[str, Any]:
        algorithm = QgsApplication.processingRegistry().algorithmById(f"havasuvc:{name}")
        context, feedback = QgsProcessingContext(), QgsProcessingFeedback()
        fine, why = algorithm.checkParameterValues(given, context)
        self.assertTrue(fine, why)
        result, fine = algorithm.run(given, context, feedback)
        self.assertTrue(fine, feedback.textLog())
        return result

    def test_each_has_a_title_and_help(self) -> None:
        provider = QgsApplication.processingRegistry().providerById("havasuvc")
        names = {each.name() for each in provider.algorithms()}
        wanted = {"init", "clone", "import", "export", "checkout", "diff", "commit", "switch"}
        self.assertEqual(names, {*wanted, "merge"})
        for each in provider.algorithms():
            self.assertGreater(len(each.shortHelpString()), 60, each.name())
            self.assertTrue(each.displayName() and each.group(), each.name())

    def test_from_nothing_to_a_merge(self) -> None:
        park = str(self.folder / "park")
        source = self.folder / "benches.geojson"
        feature = {
            "type": "Feature",
            "properties": {"id": 1, "material": "wood"},
            "geometry": {"type": "Point", "coordinates": [174.7, -36.8]},
        }
        source.write_text(json.dumps({"type": "FeatureCollection", "features": [feature]}))
        self.assertEqual(self.do("init", OUTPUT=park), {"OUTPUT": park})
        first = self.do("import", REPOSITORY=park, SOURCE=str(source), DATASET="seats", KEY="id")
        self.assertEqual(len(first["COMMIT"]), 40)
        run(park, "create-workingcopy")
        run(park, "branch", "survey")
        at = self.do("switch", REPOSITORY=park, BRANCH="survey")
        self.assertEqual(at["COMMIT"], first["COMMIT"])
        edit(f"{park}/park.gpkg", "UPDATE seats SET material = 'oak'")
        second = self.do("commit", REPOSITORY=park, MESSAGE="Oak", DATASET="seats")
        self.do("switch", REPOSITORY=park, BRANCH="main")
        merged = self.do("merge", REPOSITORY=park, BRANCH="survey")
        self.assertEqual(merged["COMMIT"], second["COMMIT"])
        copy = str(self.folder / "copy")
        self.do("clone", URL=park, OUTPUT=copy)
        self.assertTrue(Path(copy, "copy.gpkg").is_file())

    def test_rows_at_a_revision_and_between_two_are_layers(self) -> None:
        park = repository(self.folder)
        edit(park / "park.gpkg", "UPDATE benches SET material = 'oak' WHERE id = 1")
        edit(park / "park.gpkg", "DELETE FROM benches WHERE id = 2")
        run(park, "commit", "-m", "Oak")
        common = {"REPOSITORY": str(park), "DATASET": "benches"}
        for name, file, rows in (
            ("checkout", "then.gpkg", 6),
            ("export", "then.geojson", 6),
        ):
            out = str(self.folder / file)
            self.do(name, **common, REVISION="HEAD^", OUTPUT=out)
            layer = QgsVectorLayer(out, "then", "ogr")
            self.assertEqual(layer.featureCount(), rows, name)
        out = str(self.folder / "changes.gpkg")
        self.do("diff", **common, FIRST="HEAD^", SECOND="HEAD", OUTPUT=out)
        changes = QgsVectorLayer(out, "changes", "ogr")
        self.assertEqual({each["id"] for each in changes.getFeatures()}, {1, 2})

    def test_a_failure_is_the_commands_line(self) -> None:
        park = repository(self.folder)
        module = sys.modules[f"{support.PACKAGE}.algorithms"]
        with self.assertRaisesRegex(QgsProcessingException, "there is no branch 'none'"):
            module.run_command(["switch", "none"], str(park), QgsProcessingFeedback())
        with self.assertRaisesRegex(QgsProcessingException, "Cancelled"):
            module.run_command(["status"], str(park), Stopped())
        QgsSettings().setValue("havasu_vc/program", str(self.folder / "none"))
        with self.assertRaisesRegex(QgsProcessingException, "does not start"):
            module.run_command(["status"], str(park), QgsProcessingFeedback())


if __name__ == "__main__":
    unittest.main()
