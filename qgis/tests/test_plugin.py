"""A person's ways through the plugin, in a QGIS without a screen."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).parent))

import support
from qgis.core import (
    QgsApplication,
    QgsFeature,
    QgsGeometry,
    QgsPointXY,
    QgsProject,
    QgsSettings,
    QgsVectorLayer,
)
from qgis.gui import QgsFileWidget
from qgis.PyQt.QtCore import Qt
from qgis.PyQt.QtWidgets import QLineEdit
from support import Interface, edit, environment, load_plugin, repository, run, wait

plugin = load_plugin()


class Case(unittest.TestCase):
    """A QGIS with the plugin, and a repository that it has open."""

    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(dir=support.HOME))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        patch = mock.patch.dict(os.environ, environment())
        patch.start()
        self.addCleanup(patch.stop)
        QgsSettings().clear()
        QgsSettings().setValue("havasu_vc/program", support.PROGRAM)
        self.iface = Interface()
        self.plugin = plugin.classFactory(self.iface)
        self.plugin.initGui()
        self.addCleanup(self.end)
        self.dock = self.plugin.dock
        self.session = self.dock.session

    def end(self) -> None:
        QgsProject.instance().clear()
        if self.plugin.dock is not None:
            self.plugin.unload()
        self.iface.window.close()

    def open(self) -> Path:
        self.park = repository(self.folder)
        self.file = self.park / "park.gpkg"
        self.dock.open(str(self.park))
        self.settle()
        return self.park

    def settle(self) -> None:
        """Wait until no command runs."""
        wait(lambda: not self.dock.runner.busy, "commands end")

    def assertSaid(self, text: str) -> None:
        """Check that the message bar said something since this was asked last."""
        said, self.iface.bar.said = self.iface.bar.said, []
        self.assertTrue([each for each in said if text in each], (text, said))

    def layer(self, dataset: str = "benches") -> QgsVectorLayer:
        self.dock.edits._open(dataset)
        return next(iter(QgsProject.instance().mapLayersByName(dataset)))

    def change(self, layer: QgsVectorLayer, key: int, **values: Any) -> None:
        """Edit a row in QGIS and save it."""
        self.assertTrue(layer.startEditing())
        feature = next(layer.getFeatures(f'"id" = {key}'))
        for name, value in values.items():
            layer.changeAttributeValue(feature.id(), layer.fields().indexOf(name), value)
        self.assertTrue(layer.commitChanges())

    def datasets(self) -> dict[str, str]:
        items = self.dock.edits._items()
        return {item.text(0): item.text(1) for item in items}

    def commits(self) -> list[str]:
        tree = self.dock.history.tree
        return [tree.topLevelItem(at).text(0) for at in range(tree.topLevelItemCount())]

    def refresh(self) -> None:
        self.session.refresh()
        self.settle()

    def status(self) -> Any:
        return json.loads(run(self.park, "status", "-o", "json"))["kart.status/v2"]


class Edits(Case):
    def test_what_is_edited_in_qgis_is_shown_and_committed(self) -> None:
        self.open()
        layer = self.layer()
        self.change(layer, 1, material="pine")
        self.refresh()
        self.assertEqual(self.datasets(), {"benches": "~1", "paths": ""})
        self.assertFalse(self.dock.edits.commit_button.isEnabled())

        self.dock.edits.message.setPlainText("Bench 1 is of pine")
        self.assertTrue(self.dock.edits.commit_button.isEnabled())
        self.dock.edits.commit_button.click()
        self.settle()

        self.assertEqual(self.datasets(), {"benches": "", "paths": ""})
        self.assertEqual(self.commits()[0], "[main] Bench 1 is of pine")
        self.assertEqual(self.dock.edits.message.toPlainText(), "")
        self.assertEqual(self.status()["workingCopy"]["changes"], {})
        self.assertSaid("Committed: Bench 1 is of pine")

    def test_a_part_is_committed_by_dataset_and_by_row(self) -> None:
        self.open()
        edit(
            self.file,
            "UPDATE benches SET material = 'ash' WHERE id IN (1, 2)",
            "UPDATE paths SET name = 'new' WHERE code = 1",
        )
        self.refresh()
        checked = Qt.CheckState
        paths = next(each for each in self.dock.edits._items() if each.text(0) == "paths")
        benches = next(each for each in self.dock.edits._items() if each.text(0) == "benches")
        paths.setCheckState(0, checked.Unchecked)
        benches.setExpanded(True)
        self.dock.edits._expand(benches)
        self.settle()
        self.assertEqual(benches.childCount(), 2)
        self.assertEqual(benches.child(0).text(1), "~ material")
        benches.child(0).setCheckState(0, checked.Unchecked)
        self.assertEqual(self.dock.edits.ticked_filters(), ["benches:feature:2"])
        self.dock.edits.message.setPlainText("Only bench 2")
        self.dock.edits.commit()
        self.settle()

        self.assertEqual(self.datasets(), {"benches": "~1", "paths": "~1"})
        shown = json.loads(run(self.park, "show", "-o", "json"))["kart.diff/v1+hexwkb"]
        self.assertEqual([each["+"]["id"] for each in shown["benches"]["feature"]], [2])

    def test_edits_are_dropped_and_the_layer_shows_it(self) -> None:
        self.open()
        layer = self.layer()
        self.change(layer, 1, material="pine")
        self.refresh()
        self.dock.edits.discard(["benches"])
        self.settle()

        self.assertEqual(self.datasets()["benches"], "")
        self.assertEqual(next(layer.getFeatures('"id" = 1'))["material"], "wood")

    def test_a_file_that_another_program_edits_is_noticed(self) -> None:
        self.open()
        edit(self.file, "DELETE FROM benches WHERE id = 2")
        wait(lambda: self.datasets().get("benches") == "−1", "the edit is noticed")

    def test_edits_are_layers_on_the_map(self) -> None:
        self.open()
        layer = self.layer()
        self.change(layer, 1, material="pine")
        self.assertTrue(layer.startEditing())
        feature = QgsFeature(layer.fields())
        feature.setAttribute("id", 9)
        feature.setAttribute("material", "new")
        feature.setGeometry(QgsGeometry.fromPointXY(QgsPointXY(174.766, -36.8555)))
        self.assertTrue(layer.addFeature(feature))
        moved = next(layer.getFeatures('"id" = 3'))
        there = QgsGeometry.fromPointXY(QgsPointXY(174.7725, -36.8575))
        self.assertTrue(layer.changeGeometry(moved.id(), there))
        self.assertTrue(layer.deleteFeature(next(layer.getFeatures('"id" = 4')).id()))
        self.assertTrue(layer.commitChanges(), layer.commitErrors())
        self.refresh()
        self.assertEqual(self.datasets()["benches"], "+1 ~2 −1")

        made: list[QgsVectorLayer] = []
        self.dock.view.show("Edits", then=made.extend)
        wait(lambda: made, "layers are made")
        self.assertEqual(
            [each.name() for each in made],
            [
                "benches – after (2)",
                "benches – inserted (1)",
                "benches – deleted (1)",
                "benches – before (2)",
            ],
        )
        after = {each["id"]: each for each in made[0].getFeatures()}
        before = {each["id"]: each for each in made[3].getFeatures()}
        self.assertEqual((before[1]["material"], after[1]["material"]), ("wood", "pine"))
        self.assertEqual(after[3]["changed columns"], "geom")
        self.assertTrue(after[3].geometry().equals(_multi(there)))
        self.assertEqual(made[0].crs().authid(), "EPSG:4326")
        box = self.iface.canvas.extent()
        self.assertTrue(box.contains(QgsPointXY(174.7725, -36.8575)))

        self.iface.draw()
        support.picture(self.iface.window, "diff")
        self.dock.view.show("Edits", then=made.extend)
        wait(lambda: len(made) == 8, "layers are made anew")
        names = [each.name() for each in QgsProject.instance().layerTreeRoot().children()]
        self.assertEqual(names, ["Edits", "benches"])


def _multi(geometry: QgsGeometry) -> QgsGeometry:
    made = QgsGeometry(geometry)
    made.convertToMultiType()
    return made


class Branches(Case):
    def test_a_branch_is_made_and_layers_follow_a_switch(self) -> None:
        self.open()
        layer = self.layer()
        self.dock.new_branch("survey")
        self.settle()
        self.change(layer, 1, material="pine")
        run(self.park, "commit", "-m", "pine")
        self.refresh()
        self.assertIn("on survey", self.dock.state.text())
        self.dock.switch("main")
        self.settle()
        self.assertIn("on main", self.dock.state.text())
        self.assertEqual(next(layer.getFeatures('"id" = 1'))["material"], "wood")
        self.dock.switch("survey")
        self.settle()
        self.assertEqual(next(layer.getFeatures('"id" = 1'))["material"], "pine")

    def test_a_column_of_another_branch_is_in_the_layer(self) -> None:
        self.open()
        layer = self.layer()
        self.dock.new_branch("survey")
        self.settle()
        edit(self.file, "ALTER TABLE benches ADD COLUMN seats INTEGER")
        run(self.park, "commit", "-m", "seats")
        self.dock.switch("main")
        self.settle()
        self.assertNotIn("seats", layer.fields().names())
        self.dock.switch("survey")
        self.settle()
        self.assertIn("seats", layer.fields().names())

    def test_nothing_moves_beneath_a_layer_in_edit_mode(self) -> None:
        self.open()
        layer = self.layer()
        run(self.park, "branch", "other")
        self.refresh()
        self.assertTrue(layer.startEditing())
        self.dock.switch("other")
        self.settle()
        self.assertEqual(self.status()["branch"], "main")
        self.assertSaid("Layers are being edited: benches")

        feature = next(layer.getFeatures('"id" = 1'))
        layer.changeAttributeValue(feature.id(), layer.fields().indexOf("material"), "x")
        self.dock.edits.message.setPlainText("unsaved")
        self.session.change(["commit", "-m", "unsaved"], label="Committing", moves=False, told="no")
        self.settle()
        self.assertSaid("Edits are not saved: benches")
        self.assertTrue(layer.rollBack())
        self.dock.switch("other")
        self.settle()
        self.assertEqual(self.status()["branch"], "other")

    def conflict(self) -> None:
        self.open()
        run(self.park, "switch", "-c", "theirs")
        edit(self.file, "UPDATE benches SET material = 'oak', note = 'theirs' WHERE id = 1")
        edit(self.file, "UPDATE benches SET material = 'oak' WHERE id = 2")
        run(self.park, "commit", "-m", "Oak")
        run(self.park, "switch", "main")
        edit(self.file, "UPDATE benches SET material = 'ash', note = 'ours' WHERE id = 1")
        edit(self.file, "DELETE FROM benches WHERE id = 2")
        run(self.park, "commit", "-m", "Ash")
        self.refresh()
        self.dock.merge("theirs")
        self.settle()

    def test_conflicts_are_decided_by_cell_and_by_row(self) -> None:
        self.conflict()
        page = self.dock.conflicts
        self.assertIn("2 to decide", page.head.text())
        self.assertIs(self.dock.tabs.currentWidget(), page)
        first, second = "benches:feature:1", "benches:feature:2"
        self.iface.window.show()
        support.picture(self.dock, "conflicts")
        self.assertEqual(page.buttons[first, "material", "ours"].text(), "ash")
        self.assertEqual(page.buttons[first, "note", "theirs"].text(), "theirs")
        self.assertEqual(page.buttons[second, "", "ours"].text(), "no row")
        self.assertFalse(page.conclude_button.isEnabled())

        page.buttons[first, "material", "theirs"].click()
        self.assertFalse(self.dock.runner.busy)
        page.buttons[first, "note", "ours"].click()
        self.settle()
        self.assertIn("1 to decide", page.head.text())
        page.buttons[second, "", "theirs"].click()
        self.settle()
        self.assertIn("all is decided", page.head.text())
        page.conclude_button.click()
        self.settle()

        rows = json.loads(run(self.park, "cat", "benches", "-o", "json"))
        told = {row["id"]: (row["material"], row["note"]) for row in rows}
        self.assertEqual((told[1], told[2]), (("oak", "ours"), ("oak", None)))
        self.assertEqual(self.status().get("merging"), None)
        self.assertIn("nothing edited", self.dock.state.text())

    def test_a_merge_is_aborted(self) -> None:
        self.conflict()
        self.dock.conflicts.abort()
        self.settle()
        self.assertEqual(self.session.status.merging, "")
        self.assertEqual(self.commits()[0], "[main] Ash")


class Remotes(Case):
    def test_push_clone_and_pull(self) -> None:
        self.open()
        server = self.folder / "server.git"
        run(self.folder, "init", "--bare", str(server))
        run(self.park, "remote", "add", "origin", str(server))
        self.refresh()
        self.dock.push()
        self.settle()
        self.assertIn("as origin/main", self.dock.state.text())

        self.dock.clone(str(server), str(self.folder / "copy"))
        self.settle()
        self.assertEqual(self.session.folder, str(self.folder / "copy"))
        self.assertTrue(self.session.status.file.endswith("copy.gpkg"))
        self.assertEqual(self.dock.repositories.count(), 2)

        edit(self.file, "UPDATE benches SET material = 'oak' WHERE id = 1")
        run(self.park, "commit", "-m", "Oak")
        run(self.park, "push")
        layer = self.layer()
        self.dock.fetch()
        self.settle()
        self.assertIn("1 behind", self.dock.state.text())
        self.dock.pull()
        self.settle()
        self.assertEqual(next(layer.getFeatures('"id" = 1'))["material"], "oak")
        self.assertEqual(self.commits()[0], "[main, origin/main] Oak")

    def test_a_failure_is_said_in_the_commands_own_words(self) -> None:
        self.open()
        self.dock.pull()
        self.settle()
        self.assertSaid("branch 'main' follows no other branch")


class History(Case):
    def test_a_datasets_history_and_an_old_state(self) -> None:
        self.open()
        layer = self.layer()
        self.change(layer, 1, material="pine")
        run(self.park, "commit", "-m", "Pine")
        self.refresh()
        self.assertEqual(len(self.commits()), 3)
        self.dock.history.choose("paths")
        self.settle()
        self.assertEqual(len(self.commits()), 1)
        self.dock.history.choose("benches")
        self.settle()
        self.assertEqual(len(self.commits()), 2)
        tree = self.dock.history.tree
        self.assertEqual(tree.topLevelItem(0).text(1), "~1")
        self.assertEqual(tree.topLevelItem(1).text(1), "+6")
        self.assertEqual(tree.topLevelItem(0).text(2), "Ana")

        self.dock.history.show_commit()
        wait(lambda: QgsProject.instance().mapLayersByName("benches – after (1)"), "shown")
        role = Qt.ItemDataRole.UserRole
        self.dock.history.restore(tree.topLevelItem(1).data(0, role))
        self.settle()
        self.assertEqual(self.datasets()["benches"], "~1")
        self.assertEqual(next(layer.getFeatures('"id" = 1'))["material"], "wood")

    def test_a_row_is_asked_for_on_the_map_and_brought_back(self) -> None:
        self.open()
        layer = self.layer()
        self.change(layer, 1, material="pine")
        run(self.park, "commit", "-m", "Pine")
        self.refresh()
        canvas = self.iface.canvas
        canvas.setDestinationCrs(layer.crs())
        canvas.setExtent(layer.extent().buffered(0.002))
        wait(lambda: layer in canvas.layers(), "the layer is on the map")
        self.iface.draw()
        feature = next(layer.getFeatures('"id" = 1'))
        at = canvas.getCoordinateTransform().transform(feature.geometry().asPoint())
        self.dock.row_tool.look(int(at.x()), int(at.y()))
        window = self.dock.row_window
        wait(lambda: window.history.topLevelItemCount() == 2, "history is shown")
        wait(lambda: self._blamed(), "blame is shown")
        support.picture(window, "row")
        self.assertEqual(self._blamed(), {"material": "Pine", "id": "Import"})

        window.history.setCurrentItem(window.history.topLevelItem(1))
        self.settle()
        values = {
            window.cells.topLevelItem(at).text(0): window.cells.topLevelItem(at).text(1)
            for at in range(window.cells.topLevelItemCount())
        }
        self.assertEqual(values["material"], "wood")
        self.assertTrue(values["geom"].startswith("Point (174.76"))
        window.restore()
        self.settle()
        self.assertEqual(next(layer.getFeatures('"id" = 1'))["material"], "wood")
        self.assertEqual(self.datasets()["benches"], "~1")
        self.dock.row_tool.look(2, 2)
        self.assertSaid("There is no row")

    def _blamed(self) -> dict[str, str]:
        cells = self.dock.row_window.cells
        items = [cells.topLevelItem(at) for at in range(cells.topLevelItemCount())]
        told = {item.text(0): item.text(4).split(" ")[1:2] for item in items if item.text(4)}
        return {name: told[name][0] for name in ("material", "id") if name in told}


class Running(Case):
    def test_qgis_goes_on_while_a_command_runs_and_can_cancel_it(self) -> None:
        slow = self.program('if [ "$1" = slow ] || [ "$3" = slow ]; then exec sleep 600; fi')
        QgsSettings().setValue("havasu_vc/program", slow)
        ended: list[Any] = []
        self.dock.runner.run(["slow"], otherwise=ended.append, label="Slow")
        self.dock.runner.run(["never"], otherwise=ended.append)
        self.iface.window.show()
        wait(lambda: self.dock.progress.isVisible(), "the bar is shown")
        self.dock.cancel_button.click()
        self.settle()
        self.assertEqual([each.message for each in ended], ["Cancelled"])
        wait(lambda: not self.dock.progress.isVisible(), "the bar is gone")

    def test_progress_is_shown(self) -> None:
        line = '{"type": "progress", "step": "Reading", "done": 1, "total": 4}'
        told = self.program(f"echo '{line}' >&2; echo 'Error: no such thing' >&2; exit 3")
        QgsSettings().setValue("havasu_vc/program", told)
        seen: list[Any] = []
        self.dock.runner.advanced.connect(lambda *values: seen.append(values))
        self.dock.runner.run(["anything"])
        self.settle()
        self.assertEqual(seen, [("Reading", 1, 4)])
        self.assertSaid("no such thing")

    def program(self, script: str) -> str:
        """Write a command that says that it is havasu-vc."""
        path = self.folder / "havasu-vc"
        version = (
            """case "$*" in *version*) echo '{"havasu-vc": "0.1.0"}'; exit;; --help) exit;; esac"""
        )
        path.write_text(f"#!/bin/sh\n{version}\n{script}\n", "utf-8")
        path.chmod(0o755)
        return str(path)

    def test_a_program_that_is_missing_wrong_or_old_is_named(self) -> None:
        for script, told in (
            ("echo git version 2.39", "is not havasu-vc"),
            ("""echo '{"havasu-vc": "0.0.3"}'""", "havasu-vc 0.0.3 is too old"),
        ):
            path = self.folder / "other"
            path.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
            path.chmod(0o755)
            QgsSettings().setValue("havasu_vc/program", str(path))
            self.dock.runner.run(["status"])
            self.settle()
            self.assertSaid(told)
        QgsSettings().setValue("havasu_vc/program", str(self.folder / "none"))
        self.dock.runner.run(["status"])
        self.settle()
        self.assertSaid("does not start")

    def test_a_folder_that_is_no_repository_is_not_remembered(self) -> None:
        self.dock.open(str(self.folder))
        self.settle()
        self.assertEqual(self.dock.settings.repositories, [])
        self.assertSaid("is not in a havasu-vc repository")

    def test_a_new_repository_gets_a_file_and_a_working_copy(self) -> None:
        source = self.folder / "benches.csv"
        source.write_text("id,name\n1,a\n2,b\n", "utf-8")
        new = self.folder / "new"
        self.dock.init(str(new))
        self.settle()
        self.assertIn("nothing is committed yet", self.dock.state.text())
        self.dock.import_file(str(source), "id")
        self.settle()
        self.assertEqual(self.datasets(), {"benches": ""})
        self.assertFalse(self.dock.copy_button.isHidden())
        self.dock.make_working_copy()
        self.settle()
        self.assertTrue(self.dock.copy_button.isHidden())
        self.assertEqual(len(list(self.layer().getFeatures())), 2)
        self.dock.forget()
        self.assertEqual(self.dock.settings.repositories, [])

    def test_the_plugin_leaves_nothing_behind(self) -> None:
        self.open()
        self.plugin.unload()
        self.assertEqual(self.iface.actions, [])
        self.assertIsNone(QgsApplication.processingRegistry().providerById("havasuvc"))

    def test_the_plugin_may_go_while_a_command_runs(self) -> None:
        begun, end = self.folder / "begun", self.folder / "ended"
        trap = f"trap 'kill $!; echo > {end}; exit 143' TERM"
        slow = self.program(f"{trap}; sleep 600 & echo > {begun}; wait")
        QgsSettings().setValue("havasu_vc/program", slow)
        heard: list[Any] = []
        self.dock.runner.run(["slow"], then=heard.append, otherwise=heard.append)
        wait(begun.exists, "the command runs")
        runner = self.dock.runner
        self.plugin.unload()
        runner.run(["slow"], otherwise=heard.append)
        self.assertFalse(runner.busy)
        wait(end.exists, "the command is told to end, and does")
        # Nothing is left that would still end it when its time is up.
        late = time.monotonic() + 6
        wait(lambda: time.monotonic() > late, "its time is up")
        self.assertEqual(heard, [])


class Dialogs(Case):
    def answer(self, **given: str) -> Any:
        """Fill in the dialog that comes up, by the kinds of its fields in turn, and accept it."""

        def fill(form: Any) -> bool:
            for name, value in given.items():
                kind, at = name.split("_")
                found = form.findChildren({"line": QLineEdit, "file": QgsFileWidget}[kind])
                each = [one for one in found if one.parent() is form][int(at)]
                each.setText(value) if kind == "line" else each.setFilePath(value)
            return True

        module = sys.modules[f"{support.PACKAGE}.dialogs"]
        return mock.patch.object(module.Form, "accepted_by_person", fill)

    def test_a_clone_is_named_as_its_url_ends(self) -> None:
        ask = sys.modules[f"{support.PACKAGE}.dialogs"].ask_clone
        url = "https://example.org/parks.git"
        with self.answer(line_0=url, file_0="/data"):
            self.assertEqual(ask(self.dock), (url, "/data/parks"))
        with self.answer(line_0="host:parks", file_0="/data", line_1="mine"):
            self.assertEqual(ask(self.dock), ("host:parks", "/data/mine"))
        with self.answer(line_0="", file_0="/data"):
            self.assertIsNone(ask(self.dock))

    def test_a_file_and_the_commands_path_are_asked_for(self) -> None:
        module = sys.modules[f"{support.PACKAGE}.dialogs"]
        with self.answer(file_0="/data/a.gpkg", line_0=" id "):
            self.assertEqual(module.ask_import(self.dock), ("/data/a.gpkg", "id"))
        with self.answer(file_0="/opt/havasu-vc"):
            self.assertEqual(module.ask_program(self.dock, "/a"), "/opt/havasu-vc")


class Strangers(Case):
    def test_names_and_values_are_text(self) -> None:
        self.open()
        mark = "<img src=x> & <b>bold</b>"
        edit(self.file, f"UPDATE benches SET material = '{mark}' WHERE id = 1")
        run(self.park, "commit", "-m", mark)
        self.refresh()
        item = self.dock.history.tree.topLevelItem(0)
        self.assertEqual(item.text(0), f"[main] {mark}")
        self.assertNotIn("<b>", item.toolTip(0))
        self.assertIn("&lt;b&gt;", item.toolTip(0))
        self.dock.tell(mark)
        self.assertSaid("&lt;img src=x&gt; &amp; &lt;b&gt;")
        self.assertEqual(self.dock.state.textFormat(), Qt.TextFormat.PlainText)


class Whole(Case):
    def test_the_window_as_a_person_sees_it(self) -> None:
        self.open()
        layer = self.layer()
        self.change(layer, 1, material="pine")
        there = "174.7725 -36.8575"
        self.assertTrue(layer.startEditing())
        moved = next(layer.getFeatures('"id" = 3'))
        layer.changeGeometry(moved.id(), QgsGeometry.fromWkt(f"Point ({there})"))
        new = QgsFeature(layer.fields())
        new.setAttribute("id", 7)
        new.setGeometry(QgsGeometry.fromWkt("Point (174.7665 -36.8548)"))
        layer.addFeature(new)
        self.assertTrue(layer.commitChanges())
        edit(self.file, "DELETE FROM benches WHERE id = 4")
        self.refresh()
        edits = self.dock.edits
        benches = edits._items()[0]
        benches.setExpanded(True)
        self.settle()
        self.assertEqual(
            [benches.child(at).text(1) for at in range(4)], ["~ material", "~ geom", "−", "+"]
        )
        edits.message.setPlainText("Survey of November: bench 1 is of pine, 4 is gone")
        made: list[QgsVectorLayer] = []
        self.dock.view.show("Edits", then=made.extend)
        wait(lambda: made, "layers are made")
        self.iface.show_layers()
        self.iface.draw()
        support.picture(self.iface.window, "whole")
        self.dock.tabs.setCurrentWidget(self.dock.history)
        support.picture(self.dock, "history")
        texts = [self.dock.tabs.tabText(at) for at in range(3)]
        self.assertEqual(texts, ["Edits (4)", "History", "Conflicts"])


if __name__ == "__main__":
    unittest.main()
