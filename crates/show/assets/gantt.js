// gantt
